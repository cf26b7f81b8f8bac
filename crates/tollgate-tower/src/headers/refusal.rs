//! The whole answer to a request that was refused.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use super::{Answer, HeaderStyle, problem, write};

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
