//! Parsers of responses.

use anyhow::{anyhow, bail};

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchOutcome {
    Allowed,
    Denied,
    /// The server sent an error.
    Failed,
}

impl From<bool> for BenchOutcome {
    fn from(allowed: bool) -> BenchOutcome {
        if allowed { BenchOutcome::Allowed } else { BenchOutcome::Denied }
    }
}

/// Reads the first response of the received bytes: its length and its outcome, or none if it is
/// incomplete.
pub(super) type ResponseParser = fn(&[u8]) -> anyhow::Result<Option<(usize, BenchOutcome)>>;

/// Reads a response of the Redis protocol; the value after `allowed` is the outcome.
pub(crate) fn resp(bytes: &[u8]) -> anyhow::Result<Option<(usize, BenchOutcome)>> {
    let (mut at, mut left) = (0, 1usize);
    let (mut outcome, mut is_allowed) = (BenchOutcome::Failed, false);
    while left > 0 {
        let Some(end) = memchr::memchr(b'\n', &bytes[at..]) else { return Ok(None) };
        let line = &bytes[at..at + end];
        let (kind, rest) = line.split_first().ok_or_else(|| anyhow!("an empty line"))?;
        let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
        at += end + 1;
        left -= 1;
        let mut value = None;
        match kind {
            b'*' | b'~' => left += count(rest)?,
            b'%' => left += 2 * count(rest)?,
            b'$' if rest == b"-1" => {}
            b'$' => {
                let length = count(rest)?;
                if bytes.len() < at + length + 2 {
                    return Ok(None);
                }
                value = Some(&bytes[at..at + length]);
                at += length + 2;
            }
            b':' | b'#' | b'+' | b'_' | b',' => value = Some(rest),
            b'-' => {}
            other => bail!("a response that begins with {:?}", char::from(*other)),
        }
        if is_allowed {
            outcome = matches!(value, Some(b"1" | b"t")).into();
        }
        is_allowed = value == Some(b"allowed");
    }
    Ok(Some((at, outcome)))
}

/// Parses a length; no response of a tollgate server is longer.
fn count(digits: &[u8]) -> anyhow::Result<usize> {
    let count = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    count
        .filter(|count| *count <= 1 << 20)
        .ok_or_else(|| anyhow!("a response with an invalid length"))
}

/// Reads a response of HTTP/1.1 with a content length.
pub(super) fn http(bytes: &[u8]) -> anyhow::Result<Option<(usize, BenchOutcome)>> {
    let Some(head) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = (&bytes[..head], head + 4);
    let status = head.get(9..12).ok_or_else(|| anyhow!("the server does not speak HTTP"))?;
    let mut lines = head.split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let name = line.get(..15)?;
        let value =
            name.eq_ignore_ascii_case(b"content-length:").then(|| line[15..].trim_ascii())?;
        count(value).ok()
    });
    let end = body + length.ok_or_else(|| anyhow!("a response without content-length"))?;
    if bytes.len() < end {
        return Ok(None);
    }
    let contains = |word: &[u8]| memchr::memmem::find(&bytes[body..end], word).is_some();
    let outcome = match status {
        b"200" if contains(b"\"allowed\":true") => BenchOutcome::Allowed,
        b"200" if contains(b"\"allowed\":false") => BenchOutcome::Denied,
        b"429" => BenchOutcome::Denied,
        _ => BenchOutcome::Failed,
    };
    Ok(Some((end, outcome)))
}

/// Reads a gRPC message, whose first field is the overall code.
pub(super) fn envoy(message: &[u8]) -> BenchOutcome {
    match message.get(5..7) {
        Some([0x08, 1]) => BenchOutcome::Allowed,
        Some([0x08, 2]) => BenchOutcome::Denied,
        _ => BenchOutcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the whole response is read, and that any prefix of it is incomplete.
    fn check(read: ResponseParser, bytes: &[u8], expected: BenchOutcome) {
        assert_eq!(read(bytes).unwrap(), Some((bytes.len(), expected)));
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]).unwrap(), None, "{end}");
        }
    }

    #[test]
    fn responses_of_the_redis_protocol() {
        check(resp, b"*4\r\n$7\r\nallowed\r\n:1\r\n$4\r\nrule\r\n$-1\r\n", BenchOutcome::Allowed);
        check(resp, b"*2\r\n$7\r\nallowed\r\n:0\r\n", BenchOutcome::Denied);
        check(resp, b"%1\r\n$7\r\nallowed\r\n#t\r\n", BenchOutcome::Allowed);
        check(resp, b"-ERR no\r\n", BenchOutcome::Failed);
        check(resp, b"*2\r\n*1\r\n:1\r\n:2\r\n", BenchOutcome::Failed);
        assert!(resp(b"HTTP/1.1 400\r\n").is_err());
        assert!(resp(b"$99999999999\r\n").is_err());
    }

    #[test]
    fn responses_of_http() {
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\nx: y\r\n\r\n{\"allowed\":true}";
        check(http, ok, BenchOutcome::Allowed);
        check(http, b"HTTP/1.1 429 Too\r\ncontent-length:0\r\n\r\n", BenchOutcome::Denied);
        check(http, b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno", BenchOutcome::Failed);
        assert!(http(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
