//! The whole answer to a request that was refused, in the words of its protocol.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use tollgate::rules::Reason;

use super::problem::detail;
use super::{Answer, HeaderStyle, problem, write};
use crate::grpc::{self, Detail, Status, Violation, code};

/// More limits than this are not named in one refusal: headers have a bound.
const MAX_VIOLATIONS: usize = 8;

/// The answer to a request that was refused: its status, the header fields about limits, and why.
///
/// ```
/// use tollgate::{Limiter, Request};
/// use tollgate_tower::headers::{Answer, HeaderStyle, refusal};
///
/// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 1/min }]".parse()?);
/// let request = Request::new("GET", "/");
/// assert!(limiter.decide(&request).allowed);
/// let answer = refusal(HeaderStyle::Draft10, &Answer::of(&limiter.decide(&request)), 0);
/// assert_eq!(answer.status(), 429);
/// assert_eq!(answer.headers()["retry-after"], "60");
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
pub fn refusal(style: HeaderStyle, answer: &Answer<'_>, unix_s: u64) -> Response<Bytes> {
    let mut reply = Response::new(Bytes::from(problem(answer)));
    let own = StatusCode::from_u16(answer.code);
    *reply.status_mut() = own.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let kind = HeaderValue::from_static("application/problem+json");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    write(style, answer, unix_s, reply.headers_mut());
    reply
}

/// The same in the protocol of the request, whose header fields are `asked`: gRPC if it is of that,
/// otherwise plain HTTP.
///
/// A refused call of gRPC is answered with a status alone: `RESOURCE_EXHAUSTED`, with `RetryInfo`
/// and `QuotaFailure` as its details; `UNAVAILABLE` where HTTP says 503, `PERMISSION_DENIED`
/// where it says 403.
///
/// ```
/// use tollgate::Limiter;
/// use tollgate_tower::arrival::Arrival;
/// use tollgate_tower::headers::{Answer, HeaderStyle, refusal_to};
///
/// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 1/min }]".parse()?);
/// let call = http::Request::post("/shop.Cart/Add").header("content-type", "application/grpc");
/// let (head, ()) = call.body(())?.into_parts();
/// let ask = || limiter.decide(&Arrival::new(&head).request());
/// assert!(ask().allowed);
/// let answer = refusal_to(&head.headers, HeaderStyle::Draft10, &Answer::of(&ask()), 0);
/// assert_eq!((answer.status().as_u16(), &answer.headers()["grpc-status"]), (200, &"8".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn refusal_to(
    asked: &HeaderMap,
    style: HeaderStyle,
    answer: &Answer<'_>,
    unix_s: u64,
) -> Response<Bytes> {
    match grpc::is_grpc(asked) {
        true => status_alone(asked, style, answer, unix_s),
        false => refusal(style, answer, unix_s),
    }
}

fn status_alone(
    asked: &HeaderMap,
    style: HeaderStyle,
    answer: &Answer<'_>,
    unix_s: u64,
) -> Response<Bytes> {
    let status = status(answer);
    let mut reply = Response::new(Bytes::new());
    let headers = reply.headers_mut();
    // What the caller speaks: gRPC-Web has names of its own.
    headers.extend(asked.get(CONTENT_TYPE).map(|kind| (CONTENT_TYPE, kind.clone())));
    headers.insert(grpc::STATUS, HeaderValue::from(status.code));
    for (name, text) in
        [(grpc::MESSAGE, grpc::grpc_message(&status.message)), (grpc::DETAILS, status.to_header())]
    {
        headers.extend(HeaderValue::try_from(text).ok().map(|value| (name, value)));
    }
    write(style, answer, unix_s, headers);
    reply
}

fn status(answer: &Answer<'_>) -> Status {
    let code = match answer.code {
        401 => code::UNAUTHENTICATED,
        403 => code::PERMISSION_DENIED,
        502..=504 => code::UNAVAILABLE,
        _ => code::RESOURCE_EXHAUSTED,
    };
    let message = detail(answer);
    let mut details = Vec::new();
    if let Some(millis) = answer.retry_after_ms {
        details.push(Detail::retry_after(Duration::from_millis(millis)));
    }
    if matches!(answer.reason, Reason::OverLimit | Reason::NeverFits) {
        let over = answer.policies().filter(|(_, limit)| !limit.allowed).take(MAX_VIOLATIONS);
        let violations = over.map(|(name, _)| Violation {
            subject: format!("rule:{name}"),
            description: message.clone(),
        });
        details.push(Detail::quota_failure(violations.collect()));
    }
    Status { code, message, details }
}
