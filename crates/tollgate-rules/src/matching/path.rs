//! One spelling for every path: `//a/./b%2Fc` must not be a way around a rule on `/a/b`.

use std::borrow::Cow;

use crate::matching::request_path::{PathReading, RequestPath};

/// Returns the path of a target as rules match it by default.
///
/// All spellings of a path have it in common: no query, no empty, `.` or `..` segments, no slash at
/// the end, no parameters behind `;`, no capitals, nothing escaped that need not be.
///
/// ```
/// assert_eq!(tollgate_rules::normalize_path("//a/./x/../%62;v=1/?c=d"), "/a/b");
/// assert_eq!(tollgate_rules::normalize_path("/LOGIN"), "/login");
/// ```
pub fn normal(target: &str) -> Cow<'_, str> {
    match without_query(target) {
        plain if is_plain(plain) => Cow::Borrowed(plain),
        path => {
            let path = RequestPath::new(path, PathReading::default());
            Cow::Owned(path.main.matched().to_owned())
        }
    }
}

/// Returns the path of a target in one spelling, with its case and parameters.
pub(crate) fn cased(target: &str) -> Cow<'_, str> {
    match without_query(target) {
        plain if is_plain(plain) => Cow::Borrowed(plain),
        path => {
            let reading = PathReading { strips_params: false, ..PathReading::default() };
            normalize(path, EncodedSlashes::Separate, reading)
        }
    }
}

/// The meaning of slashes and backslashes that are escaped, and of plain backslashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EncodedSlashes {
    /// All of them separate segments.
    Separate,
    /// Only slashes separate segments.
    KeepBackslash,
    /// None of them separates segments.
    Keep,
}

/// Returns the path of a target, which may be absolute, as it is sent to proxies.
pub(crate) fn without_query(target: &str) -> &str {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    match path.split_once("://") {
        Some((_, rest)) if !path.starts_with('/') => &rest[rest.find('/').unwrap_or(rest.len())..],
        _ => path,
    }
}

/// Whether a path has only one form, which is its own spelling.
pub(crate) fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let odd = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    path == "/"
        || bytes.first() == Some(&b'/')
            && bytes.last() != Some(&b'/')
            && !bytes.iter().any(|byte| IS_UNUSUAL[usize::from(*byte)])
            && !bytes.windows(2).any(odd)
}

/// The bytes by which a path may have another spelling or form: everything that is no slash and no
/// literal of a segment, and capitals.
const IS_UNUSUAL: [bool; 256] = {
    let mut table = [true; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_usual = is_literal(byte as u8) && !(byte as u8).is_ascii_uppercase();
        table[byte] = !is_usual && byte as u8 != b'/';
        byte += 1;
    }
    table
};

/// Whether a byte means the same in a segment, escaped or not. A `;` does not.
const fn is_literal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'')
        || matches!(byte, b'(' | b')' | b'*' | b'+' | b',' | b'=' | b':' | b'@')
}

/// Whether there are escaped slashes, and whether there are backslashes, escaped or not.
pub(crate) fn encoded_slashes(path: &str) -> (bool, bool) {
    let bytes = path.as_bytes();
    let has = |digits: &[u8]| bytes.windows(3).any(|escape| escape.eq_ignore_ascii_case(digits));
    (has(b"%2f"), has(b"%5c") || bytes.contains(&b'\\'))
}

/// Returns a path without empty, `.` and `..` segments, in one spelling. Only a slash at the end may
/// stay, if the reading keeps it.
pub(crate) fn normalize(path: &str, slashes: EncodedSlashes, reading: PathReading) -> Cow<'_, str> {
    let decoded = decode(path, slashes);
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_in_slash = false;
    for segment in decoded.split('/') {
        let segment = match reading.strips_params {
            true => segment.split(';').next().unwrap_or_default(),
            false => segment,
        };
        ends_in_slash = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let slash = if reading.keeps_slash && ends_in_slash && !segments.is_empty() { "/" } else { "" };
    Cow::Owned(format!("/{}{slash}", segments.join("/")))
}

/// Returns a path that is not escaped as `path` in a condition spells it: with escapes for all bytes
/// that need them.
///
/// ```
/// assert_eq!(tollgate_rules::escape_path("/a b/50%"), "/a%20b/50%25");
/// ```
pub fn escape(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b';' => text.push(char::from(byte)),
            byte if is_literal(byte) => text.push(char::from(byte)),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Spells every byte of a segment in one way: literals plain, all others escaped, in capitals.
fn decode(path: &str, slashes: EncodedSlashes) -> String {
    let mut text = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escaped = (byte == b'%').then(|| hex(after)).flatten();
        if escaped.is_some() {
            rest = &after[2..];
        }
        match (escaped, escaped.unwrap_or(byte)) {
            (_, value) if is_literal(value) => text.push(char::from(value)),
            (None, b'/' | b';') => text.push(char::from(byte)),
            (Some(_), b'/') if slashes != EncodedSlashes::Keep => text.push('/'),
            (_, b'\\') if slashes == EncodedSlashes::Separate => text.push('/'),
            (_, value) => text.push_str(&format!("%{value:02X}")),
        }
    }
    text
}

/// Returns a normalised path without capitals, if it has some. Escapes keep theirs.
pub(crate) fn fold(path: &str) -> Option<String> {
    if !path.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return None;
    }
    let mut escape = 0_u8;
    let folded: String = path
        .chars()
        .map(|letter| {
            let is_in_escape = escape > 0;
            escape = if letter == '%' { 2 } else { escape.saturating_sub(1) };
            if is_in_escape { letter } else { letter.to_ascii_lowercase() }
        })
        .collect();
    (folded != path).then_some(folded)
}

/// Returns the value of two hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(*bytes.first()?)? * 16 + digit(*bytes.get(1)?)?) as u8)
}

/// A host in lower case, without its port or final dot.
pub(crate) fn host(host: &str) -> Cow<'_, str> {
    let host = host.trim();
    let name = match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => &host[..colon],
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_path_are_normalised_alike() {
        for spelling in [
            "/a/b",
            "//a//b",
            "/a/./b",
            "/a/x/../b",
            "/a/b/",
            "/a/b?c=d",
            "/%61/b",
            "/a%2fb",
            "/a/%2e/b",
            "/a/%2E%2e/a/b",
            "/a\\b",
            "https://host/a/b",
            "/a/b#x",
            "/A/B",
            "/a;x=y/b;z",
            "/a;/x;y/..;z/b",
        ] {
            assert_eq!(normal(spelling), "/a/b", "{spelling}");
        }
        assert_eq!(normal("/"), "/");
        assert_eq!(normal(""), "/");
        assert_eq!(normal("/../.."), "/");
        assert_eq!(normal("/a%20b"), normal("/%61%20b"));
        assert_eq!(normal("/%c3%a9"), "/%C3%A9");
        assert_eq!(normal("/\u{e9}"), "/%C3%A9");
        assert_eq!(normal("/%40me%3a%2A"), "/@me:*");
        assert_eq!(normal("/a%"), "/a%25");
        assert_eq!(normal("/A;b/..;c/D"), "/d");
        assert_eq!(cased("/A;b"), "/A;b");
    }

    #[test]
    fn hosts_are_read() {
        assert_eq!(host("API.Example.com:8080"), "api.example.com");
        assert_eq!(host("[::1]:80"), "[::1]");
        assert_eq!(host("[::1]"), "[::1]");
        assert_eq!(host("example.com."), "example.com");
    }
}
