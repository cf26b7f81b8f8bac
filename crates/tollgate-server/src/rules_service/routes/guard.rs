//! What comes before every answer: who asks, may they, and not for longer than allowed.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};

use super::Context;
use super::bundle::LONGEST_WAIT;
use crate::rules_service::access::{Role, Tokens, is_name};
use crate::rules_service::change::Author;
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::Caller;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const USER: HeaderName = HeaderName::from_static("x-tollgate-user");

pub(super) async fn guard(
    State(context): State<Context>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request_id(request.headers());
    let answer = match admit(&context.tokens, &request, &id) {
        Ok(author) => {
            request.extensions_mut().insert(Caller(author));
            // Who asks for a bundle may ask to be kept waiting.
            let waits = request.uri().path().ends_with("/bundle");
            let more = if waits { LONGEST_WAIT } else { Duration::ZERO };
            let timeout = context.request_timeout + more;
            match tokio::time::timeout(timeout, next.run(request)).await {
                Ok(answer) => answer,
                Err(_) => Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "timeout",
                    "the request took too long; a change may have been made all the same",
                )
                .into_response(),
            }
        }
        Err(problem) => problem.into_response(),
    };
    finish(answer, &id)
}

fn finish(mut answer: Response, id: &str) -> Response {
    let headers = answer.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    // Rules are nobody else's to keep; a cache may ask whether they changed.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    answer
}

fn admit(tokens: &Tokens, request: &Request, id: &str) -> Result<Author> {
    let headers = request.headers();
    let Some((name, role)) = tokens.owner_in(headers) else {
        let detail = "a token is needed: Authorization: Bearer …";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let who = match role {
        Role::Read if !reads => {
            let detail = "this token can only read";
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        Role::Proxy => match headers.get(USER).map(HeaderValue::to_str) {
            Some(Ok(user)) if is_name(user) => format!("{user} via {name}"),
            None if reads => name.to_owned(),
            _ => {
                let detail = format!("a proxy must say who changes something, in {USER}");
                return Err(Problem::bad_request(detail));
            }
        },
        Role::Write | Role::Read => name.to_owned(),
    };
    Ok(Author { who, request_id: id.to_owned() })
}

/// The caller's, if it can be shown; otherwise one of ours.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:/+=".contains(c);
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.chars().all(fits) => id.to_owned(),
        _ => format!("{:016x}", fastrand::u64(..)),
    }
}
