//! Forward-auth: proxies ask here before they let a request through.
//!
//! nginx (`auth_request`), Caddy (`forward_auth`), Traefik (`forwardAuth`) and HAProxy (a few lines
//! of Lua) describe the request they ask about in headers. Whose word is taken for that, and
//! which headers count, is in [`told`].

mod told;

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use tollgate::Request;
use tollgate::rules::Reason;

use crate::clock;
use crate::doors::http::{Reply, limited};
use crate::headers::{self, Answer};
use crate::rules_service::problem::Problem;
use crate::server::Context;
use crate::telemetry::DoorName;
use told::Told;

/// The proxy's own token, where `Authorization` is its client's.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-tollgate-token");

/// Says whether a proxy may let a request through.
pub(crate) async fn answer(
    context: &Context,
    peer: Option<SocketAddr>,
    head: &Parts,
) -> Result<Reply, Problem> {
    let options = Options::read(head.uri.query())?;
    let told = Told::read(&context.config.trusted_proxies, peer, head)
        .map_err(|problem| options.refuse(problem))?;
    let texts: Vec<(&str, Cow<'_, str>)> = head
        .headers
        .iter()
        .filter(|(name, _)| **name != TOKEN && told.passes_on(name))
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let mut request = Request::new(&told.method, &told.target).unreported();
    if let Some(domain) = &options.domain {
        request = request.domain(domain);
    }
    if let Some(host) = &told.host {
        request = request.host(host);
    }
    if let Some(client) = told.client {
        request = request.peer(client);
    }
    if let Some(scheme) = &told.scheme {
        request = request.attribute("scheme", &**scheme);
    }
    for (name, value) in &texts {
        request = request.header(name, value);
    }
    let decision = context.engine.check(DoorName::Auth, &request, 1).await;
    if decision.reason == Reason::Unmatched && decision.domain().is_none() {
        let detail = "there are no rules of that domain; choose one with ?domain=";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "unknown-domain", detail).about("domain"));
    }
    let answer = Answer::of(&decision);
    if !answer.allowed {
        return Ok(limited(context, &answer, options.deny));
    }
    // Who asks cannot hold a request back, so its answer is.
    if !decision.wait.is_zero() {
        tokio::time::sleep(decision.wait).await;
    }
    let mut reply = Response::new(Either::Left(Full::new(Bytes::new())));
    headers::write(context.config.headers, &answer, clock::unix_s(), reply.headers_mut());
    Ok(reply)
}

/// What the proxy's configuration asks for.
#[derive(Debug, Default)]
struct Options<'q> {
    domain: Option<Cow<'q, str>>,
    /// The status of every refusal, for proxies that understand few.
    deny: Option<StatusCode>,
}

impl<'q> Options<'q> {
    fn read(query: Option<&'q str>) -> Result<Options<'q>, Problem> {
        let mut options = Options::default();
        for pair in query.unwrap_or_default().split('&') {
            match pair.split_once('=') {
                Some(("domain", name)) => options.domain = Some(Cow::Borrowed(name)),
                Some(("deny", code)) => {
                    let code = code.parse().ok().and_then(|code: u16| {
                        StatusCode::from_u16(code)
                            .ok()
                            .filter(|code| code.is_client_error() || code.is_server_error())
                    });
                    let detail = "`deny` is a status from 400 to 599, such as 403";
                    let code = code.ok_or_else(|| Problem::bad_request(detail).about("deny"));
                    options.deny = Some(code?);
                }
                _ => {}
            }
        }
        Ok(options)
    }

    /// A proxy that understands few statuses understands those of mistakes no better.
    fn refuse(&self, problem: Problem) -> Problem {
        match self.deny {
            Some(status) => problem.with_status(status),
            None => problem,
        }
    }
}
