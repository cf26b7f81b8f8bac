//! Finding the end of an answer, and what it says.

use anyhow::{anyhow, bail};

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Denied,
    /// Neither: an error.
    Failed,
}

impl From<bool> for Answer {
    fn from(allowed: bool) -> Answer {
        if allowed { Answer::Allowed } else { Answer::Denied }
    }
}

/// Reads the first answer in what has arrived: how long it is and what it says, if all of it is
/// there.
pub(super) type Read = fn(&[u8]) -> anyhow::Result<Option<(usize, Answer)>>;

/// An answer of the Redis protocol: `allowed` and what follows it says it all.
pub(super) fn resp(bytes: &[u8]) -> anyhow::Result<Option<(usize, Answer)>> {
    let (mut at, mut left) = (0, 1usize);
    let (mut answer, mut asked) = (Answer::Failed, false);
    while left > 0 {
        let Some(end) = memchr::memchr(b'\n', &bytes[at..]) else { return Ok(None) };
        let line = &bytes[at..at + end];
        let (kind, rest) = line.split_first().ok_or_else(|| anyhow!("an empty line"))?;
        let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
        at += end + 1;
        left -= 1;
        let mut said = None;
        match kind {
            b'*' | b'~' => left += count(rest)?,
            b'%' => left += 2 * count(rest)?,
            b'$' if rest == b"-1" => {}
            b'$' => {
                let length = count(rest)?;
                if bytes.len() < at + length + 2 {
                    return Ok(None);
                }
                said = Some(&bytes[at..at + length]);
                at += length + 2;
            }
            b':' | b'#' | b'+' | b'_' | b',' => said = Some(rest),
            b'-' => {}
            other => bail!("an answer that begins with {:?}", char::from(*other)),
        }
        if asked {
            answer = matches!(said, Some(b"1" | b"t")).into();
        }
        asked = said == Some(b"allowed");
    }
    Ok(Some((at, answer)))
}

/// No server of ours answers with more parts.
fn count(digits: &[u8]) -> anyhow::Result<usize> {
    let count = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    count.filter(|count| *count <= 1 << 20).ok_or_else(|| anyhow!("an answer of no known length"))
}

/// An answer of HTTP/1.1 with a length.
pub(super) fn http(bytes: &[u8]) -> anyhow::Result<Option<(usize, Answer)>> {
    let Some(head) = memchr::memmem::find(bytes, b"\r\n\r\n") else { return Ok(None) };
    let (head, body) = (&bytes[..head], head + 4);
    let status = head.get(9..12).ok_or_else(|| anyhow!("this is no HTTP server"))?;
    let mut lines = head.split(|byte| *byte == b'\n');
    let length = lines.find_map(|line| {
        let name = line.get(..15)?;
        let value =
            name.eq_ignore_ascii_case(b"content-length:").then(|| line[15..].trim_ascii())?;
        count(value).ok()
    });
    let end = body + length.ok_or_else(|| anyhow!("an answer without content-length"))?;
    if bytes.len() < end {
        return Ok(None);
    }
    let said = |word: &[u8]| memchr::memmem::find(&bytes[body..end], word).is_some();
    let answer = match status {
        b"200" if said(b"\"allowed\":true") => Answer::Allowed,
        b"200" if said(b"\"allowed\":false") => Answer::Denied,
        b"429" => Answer::Denied,
        _ => Answer::Failed,
    };
    Ok(Some((end, answer)))
}

/// The message of a gRPC answer: the first field of it is the overall code.
pub(super) fn envoy(message: &[u8]) -> Answer {
    match message.get(5..7) {
        Some([0x08, 1]) => Answer::Allowed,
        Some([0x08, 2]) => Answer::Denied,
        _ => Answer::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole, the answer is found; cut short anywhere, it is waited for.
    fn check(read: Read, bytes: &[u8], expected: Answer) {
        assert_eq!(read(bytes).unwrap(), Some((bytes.len(), expected)));
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]).unwrap(), None, "{end}");
        }
    }

    #[test]
    fn answers_of_the_redis_protocol() {
        check(resp, b"*4\r\n$7\r\nallowed\r\n:1\r\n$4\r\nrule\r\n$-1\r\n", Answer::Allowed);
        check(resp, b"*2\r\n$7\r\nallowed\r\n:0\r\n", Answer::Denied);
        check(resp, b"%1\r\n$7\r\nallowed\r\n#t\r\n", Answer::Allowed);
        check(resp, b"-ERR no\r\n", Answer::Failed);
        check(resp, b"*2\r\n*1\r\n:1\r\n:2\r\n", Answer::Failed);
        assert!(resp(b"HTTP/1.1 400\r\n").is_err());
        assert!(resp(b"$99999999999\r\n").is_err());
    }

    #[test]
    fn answers_of_http() {
        let ok = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\nx: y\r\n\r\n{\"allowed\":true}";
        check(http, ok, Answer::Allowed);
        check(http, b"HTTP/1.1 429 Too\r\ncontent-length:0\r\n\r\n", Answer::Denied);
        check(http, b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno", Answer::Failed);
        assert!(http(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
