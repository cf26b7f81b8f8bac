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
mod body_fields;
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
use crate::access::bearer;
use crate::net::http::{HttpServer, read_body};
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
}

impl HttpDoor {
    pub(crate) fn new(context: Context) -> HttpDoor {
        let http = HttpServer::new(context.config.bounds);
        let routes = crate::admin::router(context.clone());
        let admin_routes =
            routes.fallback(unknown_path).method_not_allowed_fallback(method_not_allowed);
        HttpDoor { services: Arc::new(HttpDoorServices { context, admin_routes }), http }
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
    accepted_token: Mutex<Option<Box<[u8]>>>,
}

impl HttpConnection {
    fn new(services: Arc<HttpDoorServices>, peer: Option<SocketAddr>) -> HttpConnection {
        let memory = BodyMemory::new(&services.context.bodies, peer.map(|peer| peer.ip()));
        HttpConnection { services, peer, memory, accepted_token: Mutex::default() }
    }

    /// Returns the response to a request.
    async fn respond(&self, request: Request<Incoming>) -> HttpResponse {
        match call::route(request.method(), request.uri().path()) {
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
                    let (status, body) =
                        grpc::json::respond(&context.decisions, &body, with_headers).await;
                    let mut response = json_response(status, body);
                    if status == StatusCode::BAD_REQUEST {
                        // Envoy's own rate limit service answers errors as text.
                        response.headers_mut().insert(CONTENT_TYPE, PLAIN_TEXT);
                    }
                    return Ok(response);
                }
                decide::respond(context, call, head.uri.query(), &body).await
            }
        }
    }

    /// Checks the token of a request, where tokens are configured.
    fn authorize(&self, call: HttpCall, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(tokens) = &self.services.context.config.data_tokens else { return Ok(()) };
        let presented = match call {
            HttpCall::OpenApi => return Ok(()),
            // Rules may count by the client's own `Authorization`.
            HttpCall::Auth if headers.contains_key(auth::TOKEN) => {
                headers.get(auth::TOKEN).map(HeaderValue::as_bytes)
            }
            _ => headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())),
        };
        if let Some(presented) = presented {
            let mut accepted = self.accepted_token.lock();
            if accepted.as_ref().is_some_and(|accepted| accepted.ct_eq(presented).into()) {
                return Ok(());
            }
            if tokens.authenticate(presented).is_some() {
                *accepted = Some(presented.into());
                return Ok(());
            }
        }
        let detail = "a token is needed: Authorization: Bearer …";
        Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
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
