//! Middleware of the admin API: authentication, authorization and the request timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};

use super::bundle::MAX_WAIT;
use crate::access::{Permission, Role, Tokens, bearer, is_name};
use crate::live_tokens::{AccessRefusal, LiveTokens, TokenLookup};
use crate::problem::{Problem, Result};
use crate::rules_service::change::Author;
use crate::rules_service::extract::Caller;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const USER: HeaderName = HeaderName::from_static("x-tollgate-user");

/// The paths of POST requests that change nothing and need only the role `read`.
///
/// A simulation changes nothing either, but it computes what its caller wants for as long as it
/// likes.
const READ_BY_POST: [&str; 1] = ["/v1/keys/peek"];

/// The tokens that give access, and the request timeout.
#[derive(Clone, Debug)]
pub(crate) struct TokenGuard {
    pub(crate) tokens: Arc<LiveTokens>,
    pub(crate) request_timeout: Duration,
}

/// Protects every route with a guard.
pub(crate) fn with_guard(routes: Router, guard: TokenGuard) -> Router {
    routes.layer(from_fn_with_state(guard, check))
}

async fn check(State(context): State<TokenGuard>, mut request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let answer = match admit(&context.tokens.load(), &request, &id) {
        Ok(author) => {
            request.extensions_mut().insert(Caller(author));
            // A limiter may ask to wait for a new bundle.
            let waits = request.uri().path().ends_with("/bundle");
            let more = if waits { MAX_WAIT } else { Duration::ZERO };
            let timeout = context.request_timeout + more;
            match tokio::time::timeout(timeout, next.run(request)).await {
                Ok(answer) => answer,
                Err(_) => Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "timeout",
                    "the request timed out; a change may still have been made",
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
    // Shared caches must not store rules; private ones must revalidate.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    // Responses contain keys that clients chose, so that a browser must not sniff the type.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

fn admit(tokens: &Tokens, request: &Request, id: &str) -> Result<Author> {
    let headers = request.headers();
    let presented = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    let owner = presented.and_then(|token| tokens.authenticate(token));
    let reads = matches!(*request.method(), Method::GET | Method::HEAD)
        || READ_BY_POST.contains(&request.uri().path());
    let permission = if reads { Permission::Read } else { Permission::Change };
    let lookup = TokenLookup::new(presented, |_| owner.map(|(_, role)| role));
    if let Some(refusal) = AccessRefusal::of(lookup, permission) {
        return Err(Problem::refused_access(refusal));
    }
    let Some((name, role)) = owner else {
        return Err(Problem::refused_access(AccessRefusal::NoToken(permission)));
    };
    let who = match role {
        Role::Proxy => match headers.get(USER).map(HeaderValue::to_str) {
            Some(Ok(user)) if is_name(user) => format!("{user} via {name}"),
            None if reads => name.to_owned(),
            _ => {
                let detail = format!("a proxy must name the user of a change in the header {USER}");
                return Err(Problem::bad_request(detail));
            }
        },
        Role::Write | Role::Read | Role::Decide => name.to_owned(),
    };
    Ok(Author { who, request_id: id.to_owned() })
}

/// Returns the caller's request id if it is printable, otherwise a new one.
fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:/+=".contains(c);
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.chars().all(fits) => id.to_owned(),
        _ => format!("{:016x}", fastrand::u64(..)),
    }
}
