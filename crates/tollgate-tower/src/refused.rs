//! A request that was refused, as the one who words the answer sees it.

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use crate::headers::{Answer, HeaderStyle, refusal_to};

/// A request that was refused, for who wants to [word the answer](crate::RateLimitLayer::on_refused).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The head of the request.
    pub head: &'a Parts,
    /// What was decided: the rule, the status, when to come back.
    pub answer: Answer<'a>,
    style: HeaderStyle,
    unix_s: u64,
}

impl<'a> Refusal<'a> {
    pub(crate) fn new(
        head: &'a Parts,
        answer: Answer<'a>,
        style: HeaderStyle,
        unix_s: u64,
    ) -> Refusal<'a> {
        Refusal { head, answer, style, unix_s }
    }

    /// The answer it gets unless another is given: `application/problem+json`, or a status of gRPC,
    /// with the header fields about limits.
    pub fn response(&self) -> Response<Bytes> {
        refusal_to(&self.head.headers, self.style, &self.answer, self.unix_s)
    }
}
