//! One spelling for every path: `//a/./b%2Fc` must not be a way around a rule on `/a/b`.

use std::borrow::Cow;

/// Returns the path of a target as rules match it.
///
/// All spellings of a path have it in common: no query, no empty, `.` or `..` segments, no slash at
/// the end, nothing escaped that need not be.
///
/// ```
/// assert_eq!(tollgate_rules::normalize_path("//a/./x/../%62/?c=d"), "/a/b");
/// ```
pub fn normal(target: &str) -> Cow<'_, str> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // An absolute target, as sent to proxies.
    let path = match path.split_once("://") {
        Some((_, rest)) if !path.starts_with('/') => &rest[rest.find('/').unwrap_or(rest.len())..],
        _ => path,
    };
    if is_normal(path) {
        return Cow::Borrowed(path);
    }
    let decoded = decode(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    Cow::Owned(format!("/{}", segments.join("/")))
}

fn is_normal(path: &str) -> bool {
    let bytes = path.as_bytes();
    let odd = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    path == "/"
        || bytes.first() == Some(&b'/')
            && bytes.last() != Some(&b'/')
            && !bytes.iter().any(|byte| matches!(byte, b'%' | b'\\'))
            && !bytes.windows(2).any(odd)
}

/// Escapes of characters that need none are undone; others are spelled in capitals. `%2F` and
/// `%5C` count as the separators many servers take them for.
fn decode(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let escaped = (byte == b'%').then(|| hex(after)).flatten();
        let Some(value) = escaped else {
            bytes.push(byte);
            continue;
        };
        rest = &after[2..];
        match value {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' | b'\\' => {
                bytes.push(value);
            }
            _ => bytes.extend_from_slice(format!("%{value:02X}").as_bytes()),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

fn hex(bytes: &[u8]) -> Option<u8> {
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

/// The first value of a query's parameter, decoded.
pub(crate) fn query<'t>(target: &'t str, name: &str) -> Option<Cow<'t, str>> {
    let (_, query) = target.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (form_decode(key) == name).then(|| form_decode(value))
    })
}

fn form_decode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, hex(after)) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
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
        ] {
            assert_eq!(normal(spelling), "/a/b", "{spelling}");
        }
        assert_eq!(normal("/"), "/");
        assert_eq!(normal(""), "/");
        assert_eq!(normal("/../.."), "/");
        assert_eq!(normal("/a%20b"), normal("/%61%20b"));
        assert_eq!(normal("/%c3%a9"), "/%C3%A9");
    }

    #[test]
    fn hosts_and_queries_are_read() {
        assert_eq!(host("API.Example.com:8080"), "api.example.com");
        assert_eq!(host("[::1]:80"), "[::1]");
        assert_eq!(host("[::1]"), "[::1]");
        assert_eq!(host("example.com."), "example.com");
        assert_eq!(query("/a?x=1&key=a%20b+c", "key").as_deref(), Some("a b c"));
        assert_eq!(query("/a?x", "x").as_deref(), Some(""));
        assert_eq!(query("/a", "x"), None);
    }
}
