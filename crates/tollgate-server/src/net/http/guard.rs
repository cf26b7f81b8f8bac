//! Watches the bytes of HTTP/1.1 for what two servers could read differently.
//!
//! hyper is more lenient than a gateway may be: it takes a bare line feed for the end of a line,
//! and of a request with two lengths it keeps one and forgets that there was another. Whoever stands
//! in front of us may have kept the other one. So every head is looked at here on its way in, and to
//! know where the next one begins, bodies are followed too. Nothing is changed: who is told that a
//! head is unsound refuses the request.

use memchr::{memchr, memchr_iter, memmem};

use super::LONGEST_HEAD;
use super::chunks::Chunks;

/// Why a head is read differently by different servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsound {
    /// A line that does not end in CR LF, or a CR within one.
    LineEnd,
    /// A field that goes on in the next line.
    Folded,
    /// A field without a name, or a space in or after it.
    Name,
    /// Several lengths, or one that is no number.
    Length,
    /// A length and a transfer coding.
    TwoFramings,
    /// A transfer coding other than chunked.
    Coding,
    /// A version other than 1.1 with a transfer coding.
    OldCoding,
    /// A `#` in the target, which hyper would cut off.
    Fragment,
}

impl Unsound {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Unsound::LineEnd => "a line of the head does not end in CR LF",
            Unsound::Folded => "a header field goes on in the next line",
            Unsound::Name => "a header field has no name, or a space beside it",
            Unsound::Length => "there are several content lengths, or one that is no number",
            Unsound::TwoFramings => "there is a content length beside a transfer coding",
            Unsound::Coding => "the transfer coding is another than chunked",
            Unsound::OldCoding => "there is a transfer coding, and the version is not HTTP/1.1",
            Unsound::Fragment => "the target has a fragment",
        }
    }
}

/// Where in the stream of requests the next byte is.
#[derive(Debug)]
enum Place {
    Head,
    /// In a body of which so many bytes are left.
    Body(u64),
    Chunks(Chunks),
    /// Nothing is looked at any more.
    Beyond,
}

/// Follows the requests on one connection.
#[derive(Debug)]
pub(super) struct Guard {
    place: Place,
    /// A head whose end has not come yet.
    begun: Vec<u8>,
    /// Heads that came to their end.
    heads: u32,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Sound,
    /// The head of this number, counted from 1, is unsound.
    Head(u32, Unsound),
    /// A body is framed in a way that is read differently, so many bytes from the end of these.
    Body(usize),
}

impl Guard {
    pub(super) fn new() -> Guard {
        Guard { place: Place::Head, begun: Vec::new(), heads: 0 }
    }

    /// Looks at bytes that came.
    pub(super) fn look(&mut self, mut bytes: &[u8]) -> Found {
        while !bytes.is_empty() {
            match &mut self.place {
                Place::Beyond => return Found::Sound,
                Place::Body(left) => {
                    let here = (bytes.len() as u64).min(*left);
                    *left -= here;
                    bytes = &bytes[here as usize..];
                    if *left == 0 {
                        self.place = Place::Head;
                    }
                }
                Place::Chunks(chunks) => match chunks.look(bytes) {
                    Err(wrong) => {
                        self.place = Place::Beyond;
                        return Found::Body(wrong);
                    }
                    Ok(None) => return Found::Sound,
                    Ok(Some(rest)) => {
                        bytes = rest;
                        self.place = Place::Head;
                    }
                },
                Place::Head => match self.head(bytes) {
                    Ok(rest) => bytes = rest,
                    Err(unsound) => {
                        self.place = Place::Beyond;
                        return Found::Head(self.heads + 1, unsound);
                    }
                },
            }
        }
        Found::Sound
    }

    /// Looks at bytes of a head; what comes after it.
    fn head<'b>(&mut self, mut bytes: &'b [u8]) -> Result<&'b [u8], Unsound> {
        if self.begun.is_empty() {
            // An empty line before a request is overlooked, as everybody does.
            while let Some(rest) = bytes.strip_prefix(b"\r\n") {
                bytes = rest;
            }
            if let Some(end) = memmem::find(bytes, b"\r\n\r\n") {
                let (head, rest) = bytes.split_at(end + 4);
                self.place = place_after(head)?;
                self.heads += 1;
                return Ok(rest);
            }
        }
        // It comes in pieces: rare, and bounded by what hyper lets pass.
        let before = self.begun.len();
        self.begun.extend_from_slice(bytes);
        while self.begun.starts_with(b"\r\n") && self.begun.len() > 2 {
            self.begun.drain(..2);
        }
        // What was looked at before is not looked at again, less what the end may have begun in.
        let known = before.saturating_sub(3).min(self.begun.len());
        let Some(end) = memmem::find(&self.begun[known..], b"\r\n\r\n") else {
            if self.begun.len() > LONGEST_HEAD || has_bare_end(&self.begun, known) {
                return Err(Unsound::LineEnd);
            }
            return Ok(&[]);
        };
        let begun = std::mem::take(&mut self.begun);
        let end = known + end + 4;
        self.place = place_after(&begun[..end])?;
        self.heads += 1;
        Ok(&bytes[bytes.len() - (begun.len() - end)..])
    }
}

/// Whether a line ends in a line feed alone, from some place on.
fn has_bare_end(bytes: &[u8], from: usize) -> bool {
    let mut ends = memchr_iter(b'\n', &bytes[from..]).map(|end| from + end);
    ends.any(|end| end == 0 || bytes[end - 1] != b'\r')
}

/// What comes after a head that ends in an empty line.
fn place_after(head: &[u8]) -> Result<Place, Unsound> {
    let mut lines = Lines(head);
    let request = lines.next().ok_or(Unsound::LineEnd)??;
    if memchr(b'#', request).is_some() {
        return Err(Unsound::Fragment);
    }
    let (mut length, mut chunked) = (None, false);
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if matches!(line[0], b' ' | b'\t') {
            return Err(Unsound::Folded);
        }
        let (name, value) = match memchr(b':', line) {
            None | Some(0) => return Err(Unsound::Name),
            Some(colon) => (&line[..colon], line[colon + 1..].trim_ascii()),
        };
        if matches!(name[name.len() - 1], b' ' | b'\t') {
            return Err(Unsound::Name);
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).ok();
            let digits = digits.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let number = digits.and_then(|text| text.parse().ok()).ok_or(Unsound::Length)?;
            if length.replace(number).is_some() {
                return Err(Unsound::Length);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Unsound::Coding);
            }
            chunked = true;
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(Unsound::TwoFramings),
        (_, true) if !request.ends_with(b"HTTP/1.1") => Err(Unsound::OldCoding),
        (_, true) => Ok(Place::Chunks(Chunks::new())),
        (None | Some(0), false) => Ok(Place::Head),
        (Some(length), false) => Ok(Place::Body(length)),
    }
}

/// The lines of a head without their ends.
struct Lines<'h>(&'h [u8]);

impl<'h> Iterator for Lines<'h> {
    type Item = Result<&'h [u8], Unsound>;

    fn next(&mut self) -> Option<Result<&'h [u8], Unsound>> {
        let end = memchr(b'\n', self.0)?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(match line.split_last() {
            Some((b'\r', line)) if memchr(b'\r', line).is_none() => Ok(line),
            _ => Err(Unsound::LineEnd),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &str = "GET /next HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n";

    /// What is found however the bytes are cut, in pieces of every size.
    fn found(text: &str) -> Found {
        let all = |size: usize| {
            let mut guard = Guard::new();
            let mut pieces = text.as_bytes().chunks(size).map(|piece| guard.look(piece));
            pieces.find(|found| *found != Found::Sound).unwrap_or(Found::Sound)
        };
        let whole = all(text.len());
        for size in 1..text.len() {
            assert_eq!(all(size), whole, "in pieces of {size}: {text:?}");
        }
        whole
    }

    #[test]
    fn what_is_sound_is_followed_to_the_next_request() {
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\n\n\n\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked \r\n\r\n3\r\n\n\n\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nA;x=\"y\"\r\n0123456789\r\n00\r\nT: x\r\n\r\n",
        ] {
            assert_eq!(found(request), Found::Sound, "{request:?}");
            let both = format!("{request}{NEXT}");
            assert_eq!(found(&both), Found::Head(2, Unsound::Length), "{both:?}");
        }
    }

    #[test]
    fn what_is_read_differently_is_found() {
        for (fields, unsound) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked", Unsound::TwoFramings),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", Unsound::TwoFramings),
            ("Content-Length: 5\r\nContent-Length: 5", Unsound::Length),
            ("Content-Length: 5, 5", Unsound::Length),
            ("Content-Length: +5", Unsound::Length),
            ("Content-Length:", Unsound::Length),
            ("Content-Length: 99999999999999999999999", Unsound::Length),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", Unsound::Coding),
            ("Transfer-Encoding: identity", Unsound::Coding),
            ("Transfer-Encoding: gzip, chunked", Unsound::Coding),
            ("Transfer-Encoding: xchunked", Unsound::Coding),
            ("Transfer-Encoding : chunked", Unsound::Name),
            ("Transfer-Encoding\r\n : chunked", Unsound::Name),
            ("X: y\r\n Transfer-Encoding: chunked", Unsound::Folded),
            ("X: y\nTransfer-Encoding: chunked", Unsound::LineEnd),
            ("X: y\rTransfer-Encoding: chunked", Unsound::LineEnd),
            (": y", Unsound::Name),
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
            assert_eq!(found(&request), Found::Head(1, unsound), "{fields:?}");
        }
        assert_eq!(found("GET /a#b HTTP/1.1\r\n\r\n"), Found::Head(1, Unsound::Fragment));
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(found(old), Found::Head(1, Unsound::OldCoding));
        assert_eq!(found("GET / HTTP/1.1\nHost: a\n\n\r\n\r\n"), Found::Head(1, Unsound::LineEnd));
        assert_eq!(
            Guard::new().look(b"GET / HTTP/1.1\nHost: a\n\n"),
            Found::Head(1, Unsound::LineEnd)
        );
    }

    #[test]
    fn chunks_that_are_read_differently_are_found() {
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
            let whole = Guard::new().look(request.as_bytes());
            assert!(matches!(whole, Found::Body(1..)), "{body:?}");
            let mut guard = Guard::new();
            let mut bytes = request.as_bytes().chunks(1);
            assert!(bytes.any(|byte| guard.look(byte) == Found::Body(1)), "{body:?}");
        }
    }
}
