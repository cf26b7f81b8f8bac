//! A refused request, as a handler of refusals sees it.

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use crate::headers::{DecisionSummary, HeaderStyle};
use crate::problem::refusal_to;

/// A refused request, for [handlers](crate::RateLimitLayer::on_refused) that write their own
/// response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The head of the request.
    pub head: &'a Parts,
    /// The decision: the rule, the status, when to come back.
    pub summary: DecisionSummary<'a>,
    style: HeaderStyle,
    unix_s: u64,
}

impl<'a> Refusal<'a> {
    pub(crate) fn new(
        head: &'a Parts,
        summary: DecisionSummary<'a>,
        style: HeaderStyle,
        unix_s: u64,
    ) -> Refusal<'a> {
        Refusal { head, summary, style, unix_s }
    }

    /// Returns the default response: `application/problem+json`, or a status of gRPC, with the
    /// rate-limit headers.
    pub fn response(&self) -> Response<Bytes> {
        refusal_to(&self.head.headers, self.style, &self.summary, self.unix_s)
    }
}
