//! Answers that are made here, because there is none of an upstream.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode, Version};
use tokio::time::timeout;

use super::look::LookError;
use super::pass::Body;
use super::sound::Unsound;
use super::upstreams::UpstreamError;
use crate::rules_service::problem::Problem;

/// A body of a refused request that is worth reading, in bytes, so that its connection can be kept.
const WORTH_READING: u64 = 64 << 10;
/// How long that may take.
const READING: std::time::Duration = std::time::Duration::from_millis(500);

/// A whole answer made here.
pub(super) fn whole(body: Bytes) -> Body {
    Either::Left(Full::new(body))
}

pub(super) fn problem(status: StatusCode, code: &'static str, detail: &str) -> Response<Body> {
    let body = Problem::new(status, code, detail).body().to_string();
    let mut response = Response::new(whole(body.into()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The answer to a request that could be read in two ways. What comes after it cannot be told
/// apart from it, so the connection ends.
pub(super) fn unsound(version: Version, (status, why): &Unsound) -> Response<Body> {
    let detail = format!("the request was not sent on: {why}");
    let code = if *status == StatusCode::BAD_REQUEST { "bad-request" } else { "not-supported" };
    let mut response = problem(*status, code, &detail);
    if *status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    closing(version, response)
}

/// The answer to a request whose body was to be looked into.
pub(super) fn not_looked_into(version: Version, error: &LookError) -> Response<Body> {
    match error {
        LookError::Client(error) => failed(version, error),
        LookError::Ambiguous(name) => {
            let why = format!("{name:?} is there twice, or under names that differ in case only");
            unsound(version, &(StatusCode::BAD_REQUEST, why.into()))
        }
    }
}

/// What upstreams are called and why they fail is for the log and not for clients.
pub(super) fn failed(version: Version, error: &UpstreamError) -> Response<Body> {
    match error {
        UpstreamError::Connect(_) => {
            let detail = "the service behind this gateway cannot be reached; try again later";
            let mut response =
                problem(StatusCode::SERVICE_UNAVAILABLE, "upstream-unreachable", detail);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        UpstreamError::Broken(_) => {
            let detail = "the service behind this gateway gave no valid answer";
            problem(StatusCode::BAD_GATEWAY, "bad-gateway", detail)
        }
        UpstreamError::Late => {
            let detail = "the service behind this gateway did not answer in time";
            problem(StatusCode::GATEWAY_TIMEOUT, "upstream-timeout", detail)
        }
        UpstreamError::SlowClient => {
            let detail = "the rest of the request did not come in time";
            closing(version, problem(StatusCode::REQUEST_TIMEOUT, "request-timeout", detail))
        }
        UpstreamError::BadClient => {
            let detail = "the body of the request broke off, or is not well formed";
            closing(version, problem(StatusCode::BAD_REQUEST, "bad-request", detail))
        }
    }
}

/// The answer to an upstream that switches to a protocol nobody asked for.
pub(super) fn wrong_switch() -> Response<Body> {
    let detail = "the service behind this gateway switched to another protocol unasked";
    problem(StatusCode::BAD_GATEWAY, "bad-gateway", detail)
}

/// The same answer, the last one on its connection. HTTP/2 has no such thing.
fn closing(version: Version, mut response: Response<Body>) -> Response<Body> {
    if version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads the body of a request that is refused, if it is small: then its connection can be kept.
/// The rest of a large one is left behind, and the connection with it.
pub(super) async fn read_small(mut body: Incoming, expects: bool) {
    if body.is_end_stream() || expects {
        return;
    }
    if body.size_hint().upper().is_some_and(|length| length <= WORTH_READING) {
        let all =
            async { while let Some(Ok(_)) = http_body_util::BodyExt::frame(&mut body).await {} };
        let _ = timeout(READING, all).await;
    }
}
