//! Responses that the gateway makes itself.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{ALLOW, CONNECTION, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode, Version};
use tokio::time::timeout;
use tollgate_tower::problem::ProblemDocument;

use super::ambiguity::HeadRejection;
use super::inspect_body::InspectError;
use super::proxy_request::GatewayBody;
use super::upstreams::UpstreamError;
use crate::identity::Unauthorized;

/// The maximum size of a refused request's body that is read so that its connection can be kept, in
/// bytes.
const WORTH_READING: u64 = 64 << 10;
/// The maximum time for reading it.
const READING: std::time::Duration = std::time::Duration::from_millis(500);

/// Makes a body of bytes.
pub(super) fn whole(body: Bytes) -> GatewayBody {
    Either::Left(Full::new(body))
}

pub(super) fn problem(
    status: StatusCode,
    code: &'static str,
    detail: &str,
) -> Response<GatewayBody> {
    ProblemDocument::new(status, code, detail).to_response().map(whole)
}

/// Returns the response to an ambiguous request. The end of such a request is unclear, so the
/// connection is closed.
pub(super) fn rejected(version: Version, (status, why): &HeadRejection) -> Response<GatewayBody> {
    let detail = format!("the request was not sent on: {why}");
    let code = if *status == StatusCode::BAD_REQUEST { "bad-request" } else { "not-supported" };
    let mut response = problem(*status, code, &detail);
    if *status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    closing(version, response)
}

/// Returns the response to a request whose body was rejected.
pub(super) fn inspection_failed(version: Version, error: InspectError) -> Response<GatewayBody> {
    match error {
        InspectError::Client(error) => failed(version, &error),
        InspectError::NoMemory => {
            let detail = "too many bodies of this client are being received; send fewer at once";
            let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "busy", detail);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            closing(version, response)
        }
        InspectError::Refused(refusal) => *refusal,
        InspectError::Ambiguous(name) => {
            let why = format!("{name:?} is there twice, or under names that differ in case only");
            rejected(version, &(StatusCode::BAD_REQUEST, why.into()))
        }
    }
}

/// Returns the response to a request whose upstream failed. Names and errors of upstreams are for
/// the log only.
pub(super) fn failed(version: Version, error: &UpstreamError) -> Response<GatewayBody> {
    match error {
        UpstreamError::Connect(_) => {
            let detail = "the service behind this gateway cannot be reached; try again later";
            let mut response =
                problem(StatusCode::SERVICE_UNAVAILABLE, "upstream-unreachable", detail);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            response
        }
        UpstreamError::Local(missing) => {
            let detail = format!("{missing}; try again later");
            let mut response =
                problem(StatusCode::SERVICE_UNAVAILABLE, "gateway-overloaded", &detail);
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

/// Returns the response if the upstream switches to a protocol that was not requested.
pub(super) fn wrong_switch() -> Response<GatewayBody> {
    let detail = "the service behind this gateway switched to another protocol unasked";
    problem(StatusCode::BAD_GATEWAY, "bad-gateway", detail)
}

/// Returns the response to a request that has come through this gateway before.
pub(super) fn looping() -> Response<GatewayBody> {
    let detail = "the request has come through this gateway before: an upstream sends requests back \
                  to it; correct the address of the upstream";
    problem(StatusCode::LOOP_DETECTED, "loop-detected", detail)
}

/// Returns the response to a request without a valid token, where one is required.
pub(super) fn unauthorized(refusal: Unauthorized) -> Response<GatewayBody> {
    let mut response = problem(StatusCode::UNAUTHORIZED, "unauthorized", refusal.detail);
    let (name, value) = refusal.header();
    response.headers_mut().insert(name, value);
    response
}

/// Marks a response as the last one on its connection. HTTP/2 has no such mark.
fn closing(version: Version, mut response: Response<GatewayBody>) -> Response<GatewayBody> {
    if version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads the body of a refused request if it is small, so that its connection can be kept. The
/// connection is closed if the body is large.
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
