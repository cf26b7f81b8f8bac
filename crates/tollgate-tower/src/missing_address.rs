//! The response to requests whose client address the server does not tell.
//!
//! Rules that count `per: ip` would count all of them as one client, and one busy client would lock
//! all others out. That is a mistake in the set-up of the server, which its first request shows.

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Response, StatusCode};
use tollgate_rules::Decision;

use crate::problem::{ProblemDocument, error_to};

/// What to do about missing addresses, for logs and responses.
pub(crate) const ADVICE: &str = "the server does not tell the rate limiter the address of the \
    client; with axum, serve `app.into_make_service_with_connect_info::<SocketAddr>()`, elsewhere \
    insert `tollgate_tower::Peer` into the extensions of each request, or set \
    `RateLimitLayer::peer`";

/// Whether an enforced rule counts a request by an address that is missing.
pub(crate) fn is_missing(decision: &Decision) -> bool {
    decision.has_incomplete_keys()
        && decision.incomplete_keys().any(|key| key.is_enforced() && key.lacks_address())
}

/// Returns the response: 500 with a problem document, or the status INTERNAL over gRPC.
pub(crate) fn response(request_headers: &HeaderMap) -> Response<Bytes> {
    let problem =
        ProblemDocument::new(StatusCode::INTERNAL_SERVER_ERROR, "client-address-missing", ADVICE);
    error_to(request_headers, &problem)
}
