//! The buffer of replies, in RESP2 or RESP3.

use tollgate::{Span, Verdict};

use crate::decisions::throttlecrab_times;

/// The replies that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer {
    bytes: Vec<u8>,
    /// Whether the client chose RESP3.
    pub(super) is_resp3: bool,
}

/// The maximum length of an error, which may quote what the client sent.
const MAX_ERROR_BYTES: usize = 512;

impl ReplyBuffer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Frees the memory that is not in use.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// Writes a simple string.
    pub(super) fn simple(&mut self, text: &'static str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// Writes an error: a code in capitals and a sentence.
    ///
    /// An error may quote the client, so control characters are replaced: they could end the line or
    /// control a terminal.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let printable = |byte: u8| if byte.is_ascii_control() { b' ' } else { byte };
        let end = text.floor_char_boundary(MAX_ERROR_BYTES);
        self.bytes.extend(text.as_bytes()[..end].iter().map(|byte| printable(*byte)));
        self.end();
    }

    pub(super) fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// Writes an unsigned integer, capped to the range of the protocol.
    pub(super) fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn boolean(&mut self, value: bool) {
        match (self.is_resp3, value) {
            (true, true) => self.bytes.extend_from_slice(b"#t\r\n"),
            (true, false) => self.bytes.extend_from_slice(b"#f\r\n"),
            (false, value) => self.integer(i64::from(value)),
        }
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.length_prefix(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    pub(super) fn array(&mut self, length: usize) {
        self.length_prefix(b'*', length);
    }

    pub(super) fn set(&mut self, length: usize) {
        self.length_prefix(if self.is_resp3 { b'~' } else { b'*' }, length);
    }

    /// Starts a map of `entries` names and values, which is a flat array in RESP2.
    pub(super) fn map(&mut self, entries: usize) {
        match self.is_resp3 {
            true => self.length_prefix(b'%', entries),
            false => self.length_prefix(b'*', 2 * entries),
        }
    }

    /// Writes a span in milliseconds, rounded up so that a positive span is never 0.
    pub(super) fn millis(&mut self, span: Span) {
        self.count(span.as_nanos().div_ceil(1_000_000));
    }

    /// Writes the reply of redis-cell: limited, limit, remaining, retry after, reset after.
    ///
    /// The times are in seconds, rounded up.
    pub(super) fn throttle(&mut self, verdict: &Verdict) {
        let seconds = |span: Span| span.as_nanos().div_ceil(1_000_000_000) as i64;
        let retry = verdict.retry_after().map_or(-1, |span| seconds(span).max(1));
        let start: &[u8] = if verdict.allowed { b"*5\r\n:0\r\n" } else { b"*5\r\n:1\r\n" };
        self.bytes.extend_from_slice(start);
        self.count(verdict.limit);
        self.count(verdict.remaining);
        match retry {
            -1 => self.bytes.extend_from_slice(b":-1\r\n"),
            retry => self.integer(retry),
        }
        self.integer(seconds(verdict.reset_after));
    }

    /// Writes the reply of throttlecrab: allowed, limit, remaining, reset after, retry after.
    ///
    /// The times are in seconds, rounded up; a request that can never pass has the retry time -1.
    pub(super) fn throttlecrab(&mut self, verdict: &Verdict) {
        let (reset, retry) = throttlecrab_times(verdict);
        self.array(5);
        self.integer(i64::from(verdict.allowed));
        self.count(verdict.limit);
        self.count(verdict.remaining);
        self.integer(reset);
        self.integer(retry);
    }

    fn length_prefix(&mut self, kind: u8, length: usize) {
        self.number(kind, length as i64);
    }

    #[inline]
    fn number(&mut self, kind: u8, value: i64) {
        // Most numbers have one digit, which needs no division.
        if let value @ 0..=9 = value {
            self.bytes.extend_from_slice(&[kind, b'0' + value as u8, b'\r', b'\n']);
            return;
        }
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Retry;

    fn written(is_resp3: bool, write: impl FnOnce(&mut ReplyBuffer)) -> String {
        let mut replies = ReplyBuffer { is_resp3, ..ReplyBuffer::default() };
        write(&mut replies);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn errors_contain_no_control_characters() {
        let text = written(false, |replies| replies.error("ERR a\r\n+OK\x1b[31m"));
        assert_eq!(text, "-ERR a  +OK [31m\r\n");
        assert!(written(false, |replies| replies.error(&"é".repeat(9_999))).len() < 600);
    }

    #[test]
    fn maps_nulls_and_booleans_differ_between_versions() {
        let write = |replies: &mut ReplyBuffer| {
            replies.map(1);
            replies.null();
            replies.boolean(true);
        };
        assert_eq!(written(false, write), "*2\r\n$-1\r\n:1\r\n");
        assert_eq!(written(true, write), "%1\r\n_\r\n#t\r\n");
    }

    #[test]
    fn the_retry_time_of_a_refusal_is_never_zero() {
        let mut verdict = Verdict {
            allowed: false,
            limit: u64::MAX,
            remaining: 10,
            reset_after: Span::from_nanos(1),
            retry: Retry::After(Span::from_nanos(1)),
            wait: Span::ZERO,
        };
        let write = |verdict: &Verdict| written(false, |replies| replies.throttle(verdict));
        assert_eq!(write(&verdict), format!("*5\r\n:1\r\n:{}\r\n:10\r\n:1\r\n:1\r\n", i64::MAX));
        verdict.retry = Retry::Never;
        assert!(write(&verdict).contains(":-1\r\n"));
    }
}
