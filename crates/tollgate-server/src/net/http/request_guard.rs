//! Detects requests of HTTP/1.1 that two servers could read differently (request smuggling).
//!
//! hyper is more lenient than a gateway may be: it accepts a bare line feed as the end of a line,
//! and of a request with two lengths it keeps one and forgets the other. A proxy in front of us may
//! have used the other length. So every head is inspected here on its way in, and bodies are
//! followed to know where the next head begins. The bytes pass unchanged; the gateway refuses a
//! request whose head is ambiguous.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;

use memchr::{memchr, memchr_iter, memmem};

use super::chunked_body::ChunkedBody;
use super::target_escape::{RawQueryBytes, RequestLinePosition};

/// The reason why servers could read a request head differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ambiguity {
    /// A line does not end in CR LF, or contains a CR.
    LineEnd,
    /// A header field continues on the next line.
    Folded,
    /// A header field has no name, or a space in or after it.
    Name,
    /// There are several content lengths, or one that is not a number.
    Length,
    /// There are both a content length and a transfer coding.
    TwoFramings,
    /// The transfer coding is not chunked.
    Coding,
    /// A request of another version than 1.1 has a transfer coding.
    OldCoding,
    /// The target contains a `#`, which hyper would cut off.
    Fragment,
}

impl Ambiguity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Ambiguity::LineEnd => "a line of the head does not end in CR LF",
            Ambiguity::Folded => "a header field goes on in the next line",
            Ambiguity::Name => "a header field has no name, or a space beside it",
            Ambiguity::Length => "there are several content lengths, or one that is no number",
            Ambiguity::TwoFramings => "there is a content length beside a transfer coding",
            Ambiguity::Coding => "the transfer coding is another than chunked",
            Ambiguity::OldCoding => "there is a transfer coding, and the version is not HTTP/1.1",
            Ambiguity::Fragment => "the target has a fragment",
        }
    }
}

/// The part of the request stream that the next byte belongs to.
#[derive(Debug)]
enum StreamPosition {
    Head,
    /// A body with this many bytes left.
    Body(u64),
    Chunks(ChunkedBody),
    /// Behind an ambiguity: nothing is inspected any more.
    Beyond,
}

/// A scanner that follows the requests on one connection.
#[derive(Debug)]
pub(super) struct RequestGuard {
    position: StreamPosition,
    /// The bytes of a head that is not complete yet.
    partial_head: Vec<u8>,
    /// The number of complete heads so far.
    heads: u32,
    /// The maximum size of a head, in bytes.
    head_bytes: usize,
    /// The position in the first line of the head.
    request_line: RequestLinePosition,
    /// The characters that must be escaped in the bytes that were inspected last.
    raw_query_bytes: RawQueryBytes,
}

/// The result of inspecting received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardFinding {
    Sound,
    /// The head of the request with this number, counted from 1, is ambiguous.
    Head(u32, Ambiguity),
    /// The framing of a body is ambiguous, from this many bytes before the end on.
    Body(usize),
}

impl RequestGuard {
    pub(super) fn new(head_bytes: usize) -> RequestGuard {
        RequestGuard {
            position: StreamPosition::Head,
            partial_head: Vec::new(),
            heads: 0,
            head_bytes,
            request_line: RequestLinePosition::default(),
            raw_query_bytes: RawQueryBytes::new(),
        }
    }

    /// Returns whether the bytes that were inspected last have characters to escape.
    pub(super) fn has_raw_query_bytes(&self) -> bool {
        !self.raw_query_bytes.is_empty()
    }

    /// Takes the positions, in the bytes that were inspected last, of characters that must be escaped.
    pub(super) fn take_raw_query_bytes(&mut self) -> RawQueryBytes {
        std::mem::take(&mut self.raw_query_bytes)
    }

    /// Inspects received bytes.
    pub(super) fn inspect(&mut self, received: &[u8]) -> GuardFinding {
        let mut bytes = received;
        while !bytes.is_empty() {
            match &mut self.position {
                StreamPosition::Beyond => return GuardFinding::Sound,
                StreamPosition::Body(left) => {
                    let here = (bytes.len() as u64).min(*left);
                    *left -= here;
                    bytes = &bytes[here as usize..];
                    if *left == 0 {
                        self.position = StreamPosition::Head;
                    }
                }
                StreamPosition::Chunks(chunks) => match chunks.scan(bytes) {
                    Err(ambiguous) => {
                        self.position = StreamPosition::Beyond;
                        return GuardFinding::Body(ambiguous);
                    }
                    Ok(None) => return GuardFinding::Sound,
                    Ok(Some(rest)) => {
                        bytes = rest;
                        self.position = StreamPosition::Head;
                    }
                },
                StreamPosition::Head => match self.inspect_head(bytes, received.len()) {
                    Ok(rest) => bytes = rest,
                    Err(ambiguity) => {
                        self.position = StreamPosition::Beyond;
                        return GuardFinding::Head(self.heads + 1, ambiguity);
                    }
                },
            }
        }
        GuardFinding::Sound
    }

    /// Inspects bytes of a head at the end of `received` bytes; returns the bytes after it.
    fn inspect_head<'b>(
        &mut self,
        mut bytes: &'b [u8],
        received: usize,
    ) -> Result<&'b [u8], Ambiguity> {
        if self.partial_head.is_empty() {
            // Servers agree on ignoring empty lines before a request.
            while let Some(rest) = bytes.strip_prefix(b"\r\n") {
                bytes = rest;
            }
            if let Some(end) = memmem::find(bytes, b"\r\n\r\n") {
                let (head, rest) = bytes.split_at(end + 4);
                self.position = position_after(head)?;
                let start = received - bytes.len();
                RequestLinePosition::Start.scan(head, start, &mut self.raw_query_bytes);
                self.heads += 1;
                return Ok(rest);
            }
        }
        // The head comes in pieces, which is rare; hyper bounds its size.
        let before = self.partial_head.len();
        let start = received - bytes.len();
        self.request_line.scan(bytes, start, &mut self.raw_query_bytes);
        self.partial_head.extend_from_slice(bytes);
        while self.partial_head.starts_with(b"\r\n") && self.partial_head.len() > 2 {
            self.partial_head.drain(..2);
        }
        // Bytes of earlier pieces are not searched again, except the last three: they may be the
        // start of the end.
        let searched = before.saturating_sub(3).min(self.partial_head.len());
        let Some(end) = memmem::find(&self.partial_head[searched..], b"\r\n\r\n") else {
            if self.partial_head.len() > self.head_bytes
                || has_bare_line_feed(&self.partial_head, searched)
            {
                return Err(Ambiguity::LineEnd);
            }
            return Ok(&[]);
        };
        let head = std::mem::take(&mut self.partial_head);
        self.request_line = RequestLinePosition::Start;
        let end = searched + end + 4;
        self.position = position_after(&head[..end])?;
        self.heads += 1;
        Ok(&bytes[bytes.len() - (head.len() - end)..])
    }
}

/// Returns whether a line that ends at or after `from` ends in a line feed without a CR.
fn has_bare_line_feed(bytes: &[u8], from: usize) -> bool {
    let mut ends = memchr_iter(b'\n', &bytes[from..]).map(|end| from + end);
    ends.any(|end| end == 0 || bytes[end - 1] != b'\r')
}

/// Returns the position after a complete head.
fn position_after(head: &[u8]) -> Result<StreamPosition, Ambiguity> {
    let mut lines = HeadLines(head);
    let request = lines.next().ok_or(Ambiguity::LineEnd)??;
    if memchr(b'#', request).is_some() {
        return Err(Ambiguity::Fragment);
    }
    let (mut length, mut chunked) = (None, false);
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if matches!(line[0], b' ' | b'\t') {
            return Err(Ambiguity::Folded);
        }
        let (name, value) = match memchr(b':', line) {
            None | Some(0) => return Err(Ambiguity::Name),
            Some(colon) => (&line[..colon], line[colon + 1..].trim_ascii()),
        };
        if matches!(name[name.len() - 1], b' ' | b'\t') {
            return Err(Ambiguity::Name);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).ok();
            let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|text| text.parse().ok()).ok_or(Ambiguity::Length)?;
            if length.replace(number).is_some() {
                return Err(Ambiguity::Length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Ambiguity::Coding);
            }
            chunked = true;
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(Ambiguity::TwoFramings),
        (_, true) if !request.ends_with(b"HTTP/1.1") => Err(Ambiguity::OldCoding),
        (_, true) => Ok(StreamPosition::Chunks(ChunkedBody::new())),
        (None | Some(0), false) => Ok(StreamPosition::Head),
        (Some(length), false) => Ok(StreamPosition::Body(length)),
    }
}

/// The lines of a head, without their line ends.
struct HeadLines<'h>(&'h [u8]);

impl<'h> Iterator for HeadLines<'h> {
    type Item = Result<&'h [u8], Ambiguity>;

    fn next(&mut self) -> Option<Result<&'h [u8], Ambiguity>> {
        let end = memchr(b'\n', self.0)?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(match line.split_last() {
            Some((b'\r', line)) if memchr(b'\r', line).is_none() => Ok(line),
            _ => Err(Ambiguity::LineEnd),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_HEAD_BYTES;
    use super::*;

    const NEXT: &str = "GET /next HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";

    /// Returns the finding, which must not depend on how the bytes are cut into pieces.
    fn inspect(text: &str) -> GuardFinding {
        let all = |size: usize| {
            let mut guard = RequestGuard::new(MAX_HEAD_BYTES);
            let mut pieces = text.as_bytes().chunks(size).map(|piece| guard.inspect(piece));
            pieces.find(|found| *found != GuardFinding::Sound).unwrap_or(GuardFinding::Sound)
        };
        let whole = all(text.len());
        for size in 1..text.len() {
            assert_eq!(all(size), whole, "in pieces of {size}: {text:?}");
        }
        whole
    }

    #[test]
    fn sound_requests_are_followed_to_the_next_one() {
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\n\n\n\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked \r\n\r\n3\r\n\n\n\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nA;x=\"y\"\r\n0123456789\r\n00\r\nT: x\r\n\r\n",
        ] {
            assert_eq!(inspect(request), GuardFinding::Sound, "{request:?}");
            let both = format!("{request}{NEXT}");
            assert_eq!(inspect(&both), GuardFinding::Head(2, Ambiguity::Length), "{both:?}");
        }
    }

    #[test]
    fn ambiguous_heads_are_detected() {
        for (fields, ambiguity) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", Ambiguity::TwoFramings),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", Ambiguity::TwoFramings),
            ("Content-Length: 5\r\nContent-Length: 5", Ambiguity::Length),
            ("Content-Length: 5, 5", Ambiguity::Length),
            ("Content-Length: +5", Ambiguity::Length),
            ("Content-Length:", Ambiguity::Length),
            ("Content-Length: 99999999999999999999999", Ambiguity::Length),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Ambiguity::Coding),
            ("Transfer-Encoding: identity", Ambiguity::Coding),
            ("Transfer-Encoding: gzip, chunked", Ambiguity::Coding),
            ("Transfer-Encoding: xchunked", Ambiguity::Coding),
            ("Transfer-Encoding : chunked", Ambiguity::Name),
            ("Transfer-Encoding\r\n : chunked", Ambiguity::Name),
            ("X: y\r\n Transfer-Encoding: chunked", Ambiguity::Folded),
            ("X: y\nTransfer-Encoding: chunked", Ambiguity::LineEnd),
            ("X: y\rTransfer-Encoding: chunked", Ambiguity::LineEnd),
            (": y", Ambiguity::Name),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
            assert_eq!(inspect(&request), GuardFinding::Head(1, ambiguity), "{fields:?}");
        }
        assert_eq!(
            inspect("GET /a#b HTTP/1.1\r\n\r\n"),
            GuardFinding::Head(1, Ambiguity::Fragment)
        );
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(inspect(old), GuardFinding::Head(1, Ambiguity::OldCoding));
        assert_eq!(
            inspect("GET / HTTP/1.1\nHost: a\n\n\r\n\r\n"),
            GuardFinding::Head(1, Ambiguity::LineEnd)
        );
        assert_eq!(
            RequestGuard::new(MAX_HEAD_BYTES).inspect(b"GET / HTTP/1.1\nHost: a\n\n"),
            GuardFinding::Head(1, Ambiguity::LineEnd)
        );
    }

    #[test]
    fn ambiguous_chunks_are_detected() {
        for body in [
            "5\nhello\r\n0\r\n\r\n",
            "5 \r\nhello",
            "0x5\r\nhello",
            "5\r\nhelloX",
            "\r\n",
            "5;a\nb\r\nhello",
            "11112222333344445\r\n",
        ] {
            let request = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
            let whole = RequestGuard::new(MAX_HEAD_BYTES).inspect(request.as_bytes());
            assert!(matches!(whole, GuardFinding::Body(1..)), "{body:?}");
            let mut guard = RequestGuard::new(MAX_HEAD_BYTES);
            let mut bytes = request.as_bytes().chunks(1);
            assert!(bytes.any(|byte| guard.inspect(byte) == GuardFinding::Body(1)), "{body:?}");
        }
    }
}
