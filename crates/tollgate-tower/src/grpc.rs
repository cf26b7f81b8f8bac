//! How gRPC says that a call was refused: `google.rpc.Status` with `RetryInfo` and `QuotaFailure`,
//! as it travels in `grpc-status-details-bin`.
//!
//! Only the fields that are used here, under the numbers of the originals: what is unknown is
//! skipped when read.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use prost::Message;

pub(crate) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(crate) const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

/// The codes of gRPC that a refusal may have.
pub(crate) mod code {
    pub(crate) const PERMISSION_DENIED: i32 = 7;
    pub(crate) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(crate) const INTERNAL: i32 = 13;
    pub(crate) const UNAVAILABLE: i32 = 14;
    pub(crate) const UNAUTHENTICATED: i32 = 16;
}

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";

/// The longest text of details that is read: more is no answer of a kind we know.
const MAX_DETAILS: usize = 16 * 1024;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(message, repeated, tag = "3")]
    pub(crate) details: Vec<StatusDetail>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct QuotaFailure {
    #[prost(message, repeated, tag = "1")]
    violations: Vec<Violation>,
}

/// One limit that was exceeded.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Violation {
    #[prost(string, tag = "1")]
    pub(crate) subject: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
}

impl StatusDetail {
    pub(crate) fn retry_after(delay: Duration) -> StatusDetail {
        let seconds = i64::try_from(delay.as_secs()).unwrap_or(i64::MAX);
        let span = ProtoDuration { seconds, nanos: delay.subsec_nanos() as i32 };
        let value = RetryInfo { retry_delay: Some(span) }.encode_to_vec();
        StatusDetail { type_url: RETRY_INFO.to_owned(), value }
    }

    pub(crate) fn quota_failure(violations: Vec<Violation>) -> StatusDetail {
        let value = QuotaFailure { violations }.encode_to_vec();
        StatusDetail { type_url: QUOTA_FAILURE.to_owned(), value }
    }
}

impl Status {
    /// As a header carries it.
    pub(crate) fn to_header(&self) -> String {
        STANDARD_NO_PAD.encode(self.encode_to_vec())
    }

    /// What a header carries; with padding, as some write it, or without.
    pub(crate) fn from_header(text: &[u8]) -> Option<Status> {
        if text.len() > MAX_DETAILS {
            return None;
        }
        let bytes = STANDARD_NO_PAD.decode(text).or_else(|_| STANDARD.decode(text)).ok()?;
        Status::decode(&*bytes).ok()
    }

    /// When to come back, if it says so.
    pub(crate) fn retry_delay(&self) -> Option<Duration> {
        let info = self.details.iter().find(|detail| detail.type_url == RETRY_INFO)?;
        let delay = RetryInfo::decode(&*info.value).ok()?.retry_delay?;
        let seconds = u64::try_from(delay.seconds).ok()?;
        let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        Some(Duration::new(seconds, nanos))
    }
}

/// Whether a message is one of gRPC: `application/grpc`, with or without `+proto` or `-web`.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.as_bytes().get(..16))
        .is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/grpc"))
}

/// A text as `grpc-message` carries it: what is not plain ASCII is written as `%` and its byte in
/// hexadecimal.
///
/// ```
/// use tollgate_tower::headers::grpc_message;
/// assert_eq!(grpc_message("100 %\r\n"), "100 %25%0D%0A");
/// ```
pub fn grpc_message(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => written.push(char::from(byte)),
            _ => written.push_str(&format!("%{byte:02X}")),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_encoding() {
        let delay = Duration::from_millis(1840);
        let details =
            vec![StatusDetail::quota_failure(Vec::new()), StatusDetail::retry_after(delay)];
        let status = Status { code: code::RESOURCE_EXHAUSTED, message: "no".into(), details };
        let header = status.to_header();
        assert_eq!(Status::from_header(header.as_bytes()).unwrap().retry_delay(), Some(delay));
        let padded = STANDARD.encode(status.encode_to_vec());
        assert_eq!(Status::from_header(padded.as_bytes()), Some(status));
    }

    #[test]
    fn nonsense_is_no_status() {
        for text in ["%", "AAAA", "////", &"A".repeat(MAX_DETAILS + 4)] {
            let read = Status::from_header(text.as_bytes()).and_then(|it| it.retry_delay());
            assert_eq!(read, None, "{text}");
        }
        let negative = RetryInfo { retry_delay: Some(ProtoDuration { seconds: -1, nanos: 0 }) };
        let detail =
            StatusDetail { type_url: RETRY_INFO.to_owned(), value: negative.encode_to_vec() };
        let status = Status { code: 8, message: String::new(), details: vec![detail] };
        assert_eq!(status.retry_delay(), None);
    }

    #[test]
    fn messages_are_printable() {
        assert_eq!(grpc_message("100% of \u{e9}\n"), "100%25 of %C3%A9%0A");
    }
}
