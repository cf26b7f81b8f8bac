//! One connection, and what is remembered about it from request to request.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response, StatusCode};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tower::ServiceExt;

use super::call::{self, Call, Found};
use super::decide;
use crate::access::bearer;
use crate::doors::{auth, grpc};
use crate::openapi;
use crate::rules_service::problem::Problem;
use crate::rules_service::routes::{no_such_method, nowhere};
use crate::server::Context;

/// The body of an answer: in one piece where this door made it.
type Body = Either<Full<Bytes>, axum::body::Body>;
pub(crate) type Reply = Response<Body>;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What every connection is answered with the help of.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) context: Context,
    /// Everything that is not a decision.
    others: axum::Router,
}

impl Desk {
    pub(super) fn new(context: Context) -> Desk {
        let others = crate::admin::router(context.clone());
        let others = others.fallback(nowhere).method_not_allowed_fallback(no_such_method);
        Desk { others, context }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visit {
    desk: Arc<Desk>,
    peer: Option<SocketAddr>,
    /// The token that was accepted last, so that a connection pays for looking at it once.
    accepted: Mutex<Option<Box<[u8]>>>,
}

impl Visit {
    pub(super) fn new(desk: Arc<Desk>, peer: Option<SocketAddr>) -> Visit {
        Visit { desk, peer, accepted: Mutex::default() }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Reply {
        match call::find(request.method(), request.uri().path()) {
            Found::Call(call) => {
                let (head, body) = request.into_parts();
                let reply = match self.admit(call, &head.headers) {
                    Ok(()) => self.call(call, &head, body).await,
                    Err(problem) => Err(problem),
                };
                reply.unwrap_or_else(problem_reply)
            }
            Found::Takes(methods) => {
                let detail = format!("this address takes {methods}");
                let status = StatusCode::METHOD_NOT_ALLOWED;
                let mut reply = problem_reply(Problem::new(status, "method-not-allowed", detail));
                reply.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
                reply
            }
            Found::Nothing => {
                let routed = self.desk.others.clone().oneshot(request.map(axum::body::Body::new));
                let Ok(reply) = routed.await;
                reply.map(Either::Right)
            }
        }
    }

    async fn call(&self, call: Call, head: &Parts, body: Incoming) -> Result<Reply, Problem> {
        let context = &self.desk.context;
        match call {
            Call::Auth => auth::answer(context, self.peer, head).await,
            Call::OpenApi => Ok(json_reply(StatusCode::OK, openapi::document())),
            call => {
                let bounds = &context.config.bounds;
                let body = super::body::read(body, bounds.body, bounds.header_timeout).await?;
                if call == Call::Json {
                    let with_headers = context.config.envoy_headers;
                    let (status, answer) =
                        grpc::json::json(&context.engine, &body, with_headers).await;
                    let mut reply = json_reply(status, answer);
                    if status == StatusCode::BAD_REQUEST {
                        // A sentence, as the original answers.
                        reply.headers_mut().insert(CONTENT_TYPE, TEXT);
                    }
                    return Ok(reply);
                }
                decide::answer(context, call, head.uri.query(), &body).await
            }
        }
    }

    /// Whether the caller may ask for decisions.
    fn admit(&self, call: Call, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(tokens) = &self.desk.context.config.data_tokens else { return Ok(()) };
        let presented = match call {
            Call::OpenApi => return Ok(()),
            // The client's own `Authorization` may be what rules count by.
            Call::Auth if headers.contains_key(auth::TOKEN) => {
                headers.get(auth::TOKEN).map(HeaderValue::as_bytes)
            }
            _ => headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes())),
        };
        if let Some(presented) = presented {
            let mut accepted = self.accepted.lock();
            if accepted.as_ref().is_some_and(|known| known.ct_eq(presented).into()) {
                return Ok(());
            }
            if tokens.owner(presented).is_some() {
                *accepted = Some(presented.into());
                return Ok(());
            }
        }
        let detail = "a token is needed: Authorization: Bearer …";
        Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
    }
}

/// An answer in JSON.
pub(super) fn json_reply(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Either::Left(Full::new(body.into())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

fn problem_reply(problem: Problem) -> Reply {
    problem.into_response().map(Either::Right)
}
