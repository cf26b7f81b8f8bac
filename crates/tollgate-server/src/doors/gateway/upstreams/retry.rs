//! Requests that may be sent a second time, because the connection broke before the response.
//!
//! Something of the request was sent, and the upstream may have worked on it. So only a request that
//! changes nothing however often it is sent may be sent again: one of a safe method and without a body.

use std::error::Error;
use std::io;

use hyper::header::UPGRADE;
use hyper::{HeaderMap, Method, Request, Uri, Version};

use super::super::interim_relay::InterimRelay;
use super::super::upload::Upload;
use super::UpstreamError;

/// A copy of a request that may be sent again, once.
pub(super) struct RetryRequest {
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    interim: InterimRelay,
}

impl RetryRequest {
    /// Copies a request; `None` if it must not be sent again.
    pub(super) fn of(request: &Request<Upload>) -> Option<RetryRequest> {
        let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let has_body = request.body().progress().is_some();
        if !is_safe || has_body || request.headers().contains_key(UPGRADE) {
            return None;
        }
        Some(RetryRequest {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: request.headers().clone(),
            interim: request.body().interim().clone(),
        })
    }

    pub(super) fn into_request(self) -> Request<Upload> {
        let mut upload = Upload::empty();
        upload.report_to(self.interim);
        let mut request = Request::new(upload);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers;
        request
    }
}

/// Returns whether the connection broke before the response was there. A response that came and is not
/// valid is no such case, nor is one that did not come in time.
pub(super) fn is_reset(error: &UpstreamError) -> bool {
    let UpstreamError::Broken(error) = error else { return false };
    if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
        return true;
    }
    let Some(cause) = error.source() else { return false };
    if let Some(error) = cause.downcast_ref::<h2::Error>() {
        return error.is_io() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
    }
    let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        kind,
        Some(
            io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof
        )
    )
}
