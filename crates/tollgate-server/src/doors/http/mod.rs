//! The HTTP door: decisions, forward-auth and operations, on HTTP/1.1 and HTTP/2.
//!
//! | file | what happens there |
//! | --- | --- |
//! | `mod` | a connection: its token is checked and its requests are dispatched |
//! | `call` | method and path become an [`HttpCall`] |
//! | `body_fields`, `outcome` | the body becomes [`BodyFields`](body_fields::BodyFields) |
//! | `decide`, `batch` | the decision service decides |
//! | `render` | a decision becomes JSON |
//!
//! Decision calls are matched first and need no router; all other requests go to the
//! [admin](crate::admin) routes.

mod batch;
pub(crate) mod body_fields;
mod call;
mod decide;
mod outcome;
mod render;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tower::ServiceExt;

use super::{auth, grpc};
use crate::access::{Permission, Role, bearer};
use crate::decisions::ReservationOwner;
use crate::live_tokens::{AccessControl, AccessRefusal};
use crate::net::http::{BrowserGuard, HttpServer, read_body};
use crate::net::{BodyMemory, Connection, Door};
use crate::openapi;
use crate::problem::Problem;
use crate::rules_service::routes::{method_not_allowed, unknown_path};
use crate::server::Context;
use call::{HttpCall, RouteMatch};

pub(crate) use decide::status_response;

/// A response of the HTTP door: in one piece, or streamed by an admin route.
pub(crate) type HttpResponse = Response<Either<Full<Bytes>, axum::body::Body>>;

const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The HTTP door.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    services: Arc<HttpDoorServices>,
    http: HttpServer,
}

/// The services that all connections of the door share.
#[derive(Debug)]
struct HttpDoorServices {
    context: Context,
    /// The routes of everything that is not a decision call.
    admin_routes: axum::Router,
    guard: BrowserGuard,
}

impl HttpDoor {
    pub(crate) fn new(context: Context) -> HttpDoor {
        let http = HttpServer::new(context.config.bounds);
        let routes = crate::admin::router(context.clone());
        let admin_routes =
            routes.fallback(unknown_path).method_not_allowed_fallback(method_not_allowed);
        let guard = BrowserGuard::new(&context.config.hosts);
        HttpDoor { services: Arc::new(HttpDoorServices { context, admin_routes, guard }), http }
    }
}

impl Door for HttpDoor {
    async fn serve(&self, connection: Connection) {
        let client = Arc::new(HttpConnection::new(self.services.clone(), connection.peer));
        let handler = |request| {
            let client = client.clone();
            async move { client.respond(request).await }
        };
        self.http.serve(connection, |_| handler).await;
    }
}

/// One client connection of the HTTP door.
#[derive(Debug)]
struct HttpConnection {
    services: Arc<HttpDoorServices>,
    peer: Option<SocketAddr>,
    /// The memory for bodies of this client.
    memory: BodyMemory,
    /// The token that was accepted last, so that a connection pays for its lookup once.
    accepted_token: Mutex<Option<AcceptedToken>>,
}

/// A token that was looked up.
#[derive(Debug)]
struct AcceptedToken {
    token: Box<[u8]>,
    role: Role,
    /// The revision of the tokens that it was found in.
    revision: u64,
}

impl HttpConnection {
    fn new(services: Arc<HttpDoorServices>, peer: Option<SocketAddr>) -> HttpConnection {
        let memory = BodyMemory::new(&services.context.bodies, peer.map(|peer| peer.ip()));
        HttpConnection { services, peer, memory, accepted_token: Mutex::default() }
    }

    /// Returns the response to a request.
    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        let matched = call::route(request.method(), request.uri().path());
        // A proxy passes on the `Host` and `Origin` of its client.
        if matched != RouteMatch::Call(HttpCall::Auth)
            && let Err(problem) = self.services.guard.check(&request, self.peer)
        {
            return problem_response(&problem);
        }
        match matched {
            RouteMatch::Call(call) => {
                let (head, body) = request.into_parts();
                let response = match self.authorize(call, &head.headers) {
                    Ok(()) => self.run_call(call, &head, body).await,
                    Err(problem) => Err(problem),
                };
                response.unwrap_or_else(|problem| problem_response(&problem))
            }
            RouteMatch::WrongMethod(allowed) => {
                let detail = format!("this address takes {allowed}");
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let problem = Problem::new(status, "method-not-allowed", detail);
                let mut response = problem_response(&problem);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
                response
            }
            RouteMatch::NotACall => {
                let mut request = request;
                request.extensions_mut().insert(self.memory.clone());
                let routes = self.services.admin_routes.clone();
                let Ok(response) = routes.oneshot(request.map(axum::body::Body::new)).await;
                response.map(Either::Right)
            }
        }
    }

    async fn run_call(
        &self,
        call: HttpCall,
        head: &Parts,
        body: Incoming,
    ) -> Result<HttpResponse, Problem> {
        let context = &self.services.context;
        match call {
            HttpCall::Auth => auth::respond(context, self.peer, head).await,
            HttpCall::OpenApi => Ok(json_response(StatusCode::OK, openapi::document())),
            call => {
                let bounds = &context.config.bounds;
                let body = read_body(body, &self.memory, bounds.body, bounds.header_timeout)
                    .await
                    .map_err(Problem::unread_body)?;
                if call == HttpCall::Json {
                    let with_headers = context.config.envoy_headers;
                    let may_refund = context.access.is_open()
                        || self.authorize_as(call, &head.headers, Permission::Change).is_ok();
                    let decisions = &context.decisions;
                    let (status, body) =
                        grpc::json::respond(decisions, &body, with_headers, may_refund).await;
                    let mut response = json_response(status, body);
                    if matches!(status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN) {
                        // Envoy's own rate limit service answers errors as text.
                        response.headers_mut().insert(CONTENT_TYPE, PLAIN_TEXT);
                    }
                    return Ok(response);
                }
                if call == HttpCall::Reserve {
                    let owner = self.owner(&head.headers);
                    return decide::reserve(context, owner, head.uri.query(), &body).await;
                }
                decide::respond(context, call, head.uri.query(), &body).await
            }
        }
    }

    /// Returns the client that a reservation counts for.
    fn owner(&self, headers: &HeaderMap) -> ReservationOwner {
        let presented = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let access = &self.services.context.access;
        match presented.and_then(|token| access.authenticate(token)) {
            Some((name, _)) => ReservationOwner::Token(name.into()),
            None => ReservationOwner::anonymous(self.peer.map(|peer| peer.ip())),
        }
    }

    /// Checks whether the caller may make a call.
    fn authorize(&self, call: HttpCall, headers: &HeaderMap) -> Result<(), Problem> {
        match call.permission() {
            Some(permission) => self.authorize_as(call, headers, permission),
            None => Ok(()),
        }
    }

    /// Checks whether the caller has a right.
    fn authorize_as(
        &self,
        call: HttpCall,
        headers: &HeaderMap,
        permission: Permission,
    ) -> Result<(), Problem> {
        let access = &self.services.context.access;
        if access.check(None, permission).is_ok() {
            return Ok(());
        }
        let presented = match call {
            // Rules may count by the client's own `Authorization`.
            HttpCall::Auth if headers.contains_key(auth::TOKEN) => {
                headers.get(auth::TOKEN).map(HeaderValue::as_bytes)
            }
            _ => headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())),
        };
        let role = presented.and_then(|presented| self.role(access, presented));
        access.check(role, permission).map_err(|refusal| {
            let detail = refusal.detail("Authorization: Bearer …");
            match refusal {
                AccessRefusal::NoToken(_) => {
                    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
                }
                AccessRefusal::WrongRole(..) => {
                    Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
                }
            }
        })
    }

    /// Returns the role of a token, if it is valid.
    fn role(&self, access: &AccessControl, presented: &[u8]) -> Option<Role> {
        let revision = access.revision();
        let mut accepted = self.accepted_token.lock();
        if let Some(accepted) = accepted.as_ref().filter(|accepted| accepted.revision == revision)
            && accepted.token.ct_eq(presented).into()
        {
            return Some(accepted.role);
        }
        let (_, role) = access.authenticate(presented)?;
        *accepted = Some(AcceptedToken { token: presented.into(), role, revision });
        Some(role)
    }
}

/// Returns a response with a JSON body.
fn json_response(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn problem_response(problem: &Problem) -> HttpResponse {
    problem.to_response().map(|body| Either::Left(Full::new(body)))
}
