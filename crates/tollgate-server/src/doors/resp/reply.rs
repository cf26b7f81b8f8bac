//! Writing answers, in the second or the third version of the protocol.

use tollgate::{Span, Verdict};

/// Answers that have yet to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    /// Whether the client asked for the third version.
    pub(super) third: bool,
}

/// An error repeats at most so much of what the client sent.
const LONGEST_ERROR: usize = 512;

impl Replies {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Gives back what is not needed.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(super) fn ok(&mut self) {
        self.simple("OK");
    }

    /// A short text of ours.
    pub(super) fn simple(&mut self, text: &'static str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// An error: a code in capitals and a sentence. What a client sent may be part of it, so
    /// nothing in it may end the line or talk to a terminal.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        let shown = |byte: u8| if byte.is_ascii_control() { b' ' } else { byte };
        let end = text.floor_char_boundary(LONGEST_ERROR);
        self.bytes.extend(text.as_bytes()[..end].iter().map(|byte| shown(*byte)));
        self.end();
    }

    pub(super) fn integer(&mut self, value: i64) {
        self.number(b':', value);
    }

    /// An integer that may be too large for the protocol.
    pub(super) fn count(&mut self, value: u64) {
        self.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }

    pub(super) fn boolean(&mut self, value: bool) {
        match (self.third, value) {
            (true, true) => self.bytes.extend_from_slice(b"#t\r\n"),
            (true, false) => self.bytes.extend_from_slice(b"#f\r\n"),
            (false, value) => self.integer(i64::from(value)),
        }
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.third { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    pub(super) fn array(&mut self, length: usize) {
        self.head(b'*', length);
    }

    pub(super) fn set(&mut self, length: usize) {
        self.head(if self.third { b'~' } else { b'*' }, length);
    }

    /// So many names, each followed by a value; in the second version a flat array.
    pub(super) fn map(&mut self, entries: usize) {
        match self.third {
            true => self.head(b'%', entries),
            false => self.head(b'*', 2 * entries),
        }
    }

    /// How long, in milliseconds, rounded up; a refused request is never told 0.
    pub(super) fn millis(&mut self, span: Span) {
        self.count(span.as_nanos().div_ceil(1_000_000));
    }

    /// As redis-cell answers: limited, limit, remaining, retry after, reset after; in seconds,
    /// rounded up.
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

    fn head(&mut self, kind: u8, length: usize) {
        self.number(kind, length as i64);
    }

    #[inline]
    fn number(&mut self, kind: u8, value: i64) {
        // Nearly all are small: one digit needs no division.
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

    fn written(third: bool, write: impl FnOnce(&mut Replies)) -> String {
        let mut replies = Replies { third, ..Replies::default() };
        write(&mut replies);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn errors_are_one_harmless_line() {
        let text = written(false, |replies| replies.error("ERR a\r\n+OK\x1b[31m"));
        assert_eq!(text, "-ERR a  +OK [31m\r\n");
        assert!(written(false, |replies| replies.error(&"é".repeat(9_999))).len() < 600);
    }

    #[test]
    fn versions_differ_where_the_second_lacks_words() {
        let write = |replies: &mut Replies| {
            replies.map(1);
            replies.null();
            replies.boolean(true);
        };
        assert_eq!(written(false, write), "*2\r\n$-1\r\n:1\r\n");
        assert_eq!(written(true, write), "%1\r\n_\r\n#t\r\n");
    }

    #[test]
    fn nobody_is_told_to_come_back_at_once() {
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
