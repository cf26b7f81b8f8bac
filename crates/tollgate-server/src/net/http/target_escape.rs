//! Escapes characters that clients send raw in a query, before the request is parsed.
//!
//! `"`, `<` and `>` do not belong in a target, but browsers of old, scripts and scanners send them, and
//! servers accept them in a query. Rules and upstreams see them in one spelling, escaped: `%22`.

use memchr::{memchr, memchr3_iter};
use smallvec::SmallVec;

/// The positions of characters to escape in received bytes, in ascending order.
pub(super) type RawQueryBytes = SmallVec<[usize; 4]>;

/// The part of a request's first line that the next byte belongs to. Every byte is looked at once,
/// however a head comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RequestLinePosition {
    /// Before the line: servers ignore empty lines there.
    #[default]
    Start,
    BeforeQuery,
    InQuery,
    /// In the header fields.
    Ended,
}

impl RequestLinePosition {
    /// Finds the characters to escape in the next bytes of a head, at the position `start` of what was
    /// received. Only the query counts: in a path, these characters are not escaped.
    pub(super) fn scan(&mut self, mut bytes: &[u8], mut start: usize, found: &mut RawQueryBytes) {
        if *self == RequestLinePosition::Start {
            let empty = bytes.iter().take_while(|byte| b"\r\n".contains(byte)).count();
            bytes = &bytes[empty..];
            start += empty;
            if !bytes.is_empty() {
                *self = RequestLinePosition::BeforeQuery;
            }
        }
        if *self == RequestLinePosition::Ended {
            return;
        }
        let end = memchr(b'\n', bytes);
        let line = &bytes[..end.unwrap_or(bytes.len())];
        let query = match self {
            RequestLinePosition::InQuery => Some(0),
            _ => memchr(b'?', line).map(|mark| mark + 1),
        };
        if let Some(query) = query {
            *self = RequestLinePosition::InQuery;
            let raw = memchr3_iter(b'"', b'<', b'>', &line[query..]);
            found.extend(raw.map(|position| start + query + position));
        }
        if end.is_some() {
            *self = RequestLinePosition::Ended;
        }
    }
}

/// Returns the bytes with the characters at these positions escaped.
pub(super) fn escape(bytes: &[u8], raw: &RawQueryBytes) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len() + 2 * raw.len());
    let mut copied = 0;
    for &position in raw {
        // Bytes at the end may have been dropped since.
        let Some(&byte) = bytes.get(position) else { break };
        escaped.extend_from_slice(&bytes[copied..position]);
        escaped.extend_from_slice(match byte {
            b'"' => b"%22",
            b'<' => b"%3C",
            _ => b"%3E",
        });
        copied = position + 1;
    }
    escaped.extend_from_slice(&bytes[copied..]);
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::request_guard::{GuardFinding, RequestGuard};
    use super::*;

    /// Passes bytes through a guard in pieces of this size, as the stream does.
    fn passed(text: &str, size: usize) -> String {
        let mut guard = RequestGuard::new(64 << 10);
        let mut all = Vec::new();
        for piece in text.as_bytes().chunks(size) {
            assert_eq!(guard.inspect(piece), GuardFinding::Sound);
            all.extend(escape(piece, &guard.take_raw_query_bytes()));
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn only_queries_are_escaped_however_the_bytes_come() {
        let fields = "Host: a\r\nReferer: /?\"<>\r\n";
        let body = "{\"a\":\"<?>\"}";
        let request = |query: &str| {
            let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
            format!(
                "\r\nGET /\"p?x={query} HTTP/1.1\r\n{fields}\r\n\
                 POST /a?{query}?{query} HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n{body}\
                 POST /b HTTP/1.1\r\n{fields}Transfer-Encoding: chunked\r\n\r\n{chunk}\
                 GET /c?{query} HTTP/1.1\r\n{fields}\r\n",
                body.len()
            )
        };
        let (raw, escaped) = (request("\"<a>\"&y=?<"), request("%22%3Ca%3E%22&y=?%3C"));
        for size in 1..=raw.len() {
            assert_eq!(passed(&raw, size), escaped, "in pieces of {size}");
        }
    }
}
