//! The forward-auth door: proxies ask it whether a request may pass.
//!
//! nginx (`auth_request`), Caddy (`forward_auth`), Traefik (`forwardAuth`) and HAProxy (a few lines
//! of Lua) describe the request in headers. [`forwarded_request`] reads these headers and decides
//! which of them are trusted.

mod forwarded_request;

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::header::HeaderName;
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};
use tollgate_rules::{Reason, Request};

use crate::clock;
use crate::doors::http::{HttpResponse, status_response};
use crate::headers::{self, DecisionSummary};
use crate::identity::Unauthorized;
use crate::problem::Problem;
use crate::server::Context;
use crate::telemetry::{AuthProblem, DoorName};
use forwarded_request::{DescriptionError, ForwardedRequest};

/// The header of the proxy's own token, because `Authorization` belongs to its client.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("x-tollgate-token");

/// Decides whether a proxy may let a request pass.
pub(crate) async fn respond(
    context: &Context,
    peer: Option<SocketAddr>,
    head: &Parts,
) -> Result<HttpResponse, Problem> {
    let options = AuthOptions::read(head.uri.query())?;
    let forwarded = ForwardedRequest::read(&context.config.trusted_proxies, peer, head)
        .map_err(|error| options.apply_to(refused_description(context, error)))?;
    if !forwarded.is_described {
        note_undescribed(context);
    }
    let texts: Vec<(&str, Cow<'_, str>)> = head
        .headers
        .iter()
        .filter(|(name, _)| **name != TOKEN)
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let identity = context.identities.identify(&head.headers, context.decisions.clock());
    let identity = match identity {
        Ok(identity) => identity,
        Err(refusal) => return Ok(unauthorized(&options, refusal)),
    };
    let mut request = Request::new(&forwarded.method, &forwarded.target).unreported();
    if let Some(domain) = &options.domain {
        request = request.domain(domain);
    }
    if let Some(host) = &forwarded.host {
        request = request.host(host);
    }
    if let Some(client) = forwarded.client {
        request = request.peer(client);
    }
    if let Some(scheme) = &forwarded.scheme {
        request = request.attribute("scheme", &**scheme);
    }
    for (name, value) in &texts {
        request = request.header(name, value);
    }
    let request = identity.add_to_request(request);
    let decision = context.decisions.check(DoorName::Auth, &request, 1).await;
    if decision.reason == Reason::Unmatched && decision.domain().is_none() {
        let detail = "there are no rules of that domain; choose one with ?domain=";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "unknown-domain", detail).about("domain"));
    }
    let answer = DecisionSummary::new(&decision);
    if !answer.allowed {
        return Ok(status_response(context, &answer, options.deny));
    }
    // A proxy cannot delay the request, so the response is delayed instead.
    if !decision.wait.is_zero() {
        tokio::time::sleep(decision.wait).await;
    }
    let mut response = Response::new(Either::Left(Full::new(Bytes::new())));
    headers::write(context.config.headers, &answer, clock::unix_s(), response.headers_mut());
    Ok(response)
}

/// Returns the response to a request without a valid token, where one is required.
fn unauthorized(options: &AuthOptions<'_>, refusal: Unauthorized) -> HttpResponse {
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", refusal.detail);
    let mut response = options.apply_to(problem).to_response();
    let (name, value) = refusal.header();
    response.headers_mut().insert(name, value);
    response.map(|body| Either::Left(Full::new(body)))
}

/// Counts and logs a description that is refused, and returns the problem.
#[cold]
fn refused_description(context: &Context, error: DescriptionError) -> Problem {
    let telemetry = context.decisions.telemetry();
    match error {
        DescriptionError::Untrusted(peer) => {
            if telemetry.record_auth_problem(AuthProblem::Untrusted) {
                tracing::warn!(
                    %peer,
                    "forward-auth refuses requests of a proxy that is not trusted: add its network \
                     to trusted_proxies"
                );
            }
            let detail = format!(
                "{peer} describes a request, and is no trusted proxy: add its network to \
                 trusted_proxies"
            );
            Problem::new(StatusCode::FORBIDDEN, "untrusted-proxy", detail)
        }
        DescriptionError::Ambiguous(problem) => {
            telemetry.record_auth_problem(AuthProblem::Ambiguous);
            problem
        }
    }
}

/// Counts and logs a request whose target is not described: rules on routes do not match it.
#[cold]
fn note_undescribed(context: &Context) {
    if context.decisions.telemetry().record_auth_problem(AuthProblem::Undescribed) {
        tracing::warn!(
            "forward-auth got a request without X-Forwarded-Uri or X-Original-URI, so rules on \
             routes do not match it: have the proxy send one of them"
        );
    }
}

/// The options in the query, which the proxy's configuration sets.
#[derive(Debug, Default)]
struct AuthOptions<'q> {
    domain: Option<Cow<'q, str>>,
    /// The status of every refusal, for proxies that understand few statuses.
    deny: Option<StatusCode>,
}

impl<'q> AuthOptions<'q> {
    fn read(query: Option<&'q str>) -> Result<AuthOptions<'q>, Problem> {
        let mut options = AuthOptions::default();
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

    /// Gives a problem the status of refusals, if one is set: the proxy may understand no other.
    fn apply_to(&self, problem: Problem) -> Problem {
        match self.deny {
            Some(status) => problem.with_status(status),
            None => problem,
        }
    }
}
