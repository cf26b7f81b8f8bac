//! The target of a request as it is sent on: every server reads it as the rules did.

use std::borrow::Cow;

/// The reason why a target cannot be sent on: servers would read it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmbiguousTarget {
    /// A target that does not begin with a slash.
    NoPath,
    /// A `%` without two digits after it.
    BrokenEscape,
    /// A control character, written as such or escaped.
    Control,
    /// An escaped slash beside `.` or `..`: whether it is a separator decides where it leads.
    HiddenDots,
    /// A parameter behind `.` or `..`, as in `..;x`, or a segment of parameters before it, as in
    /// `;x/..`: servers differ in whether these are dots, and in what they remove.
    DotsWithParameter,
    /// A slash, a dot or a backslash in more bytes than UTF-8 needs.
    Overlong,
}

impl std::fmt::Display for AmbiguousTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AmbiguousTarget::NoPath => "the target does not begin with /",
            AmbiguousTarget::BrokenEscape => "the path has a % without two hexadecimal digits",
            AmbiguousTarget::Control => "the path has a control character",
            AmbiguousTarget::HiddenDots => "the path has an escaped slash beside dots",
            AmbiguousTarget::DotsWithParameter => "the path has a parameter beside dots",
            AmbiguousTarget::Overlong => "the path has a character in more bytes than it needs",
        })
    }
}

impl std::error::Error for AmbiguousTarget {}

/// Returns the target to send on: the path in the spelling that servers agree about, and its query.
///
/// The query is not changed. Rules decide the same on both spellings.
///
/// Dot segments are resolved, empty ones merged, `\` is a slash, escapes that need not be are
/// undone and others are in capitals. Escaped slashes stay: rules take them for slashes, servers
/// differ.
pub(crate) fn forward_target(target: &str) -> Result<Cow<'_, str>, AmbiguousTarget> {
    if target == "*" {
        return Ok(Cow::Borrowed(target));
    }
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = match target.find('?') {
        Some(start) => target.split_at(start),
        None => (target, ""),
    };
    if is_normalized(path.as_bytes()) {
        return Ok(Cow::Borrowed(target));
    }
    if !path.starts_with(['/', '\\']) {
        return Err(AmbiguousTarget::NoPath);
    }
    let mut segments: Vec<Segment> = Vec::new();
    let mut ends_in_slash = false;
    for segment in path.split(['/', '\\']) {
        let segment = Segment::read(segment)?;
        ends_in_slash = matches!(segment.text.as_str(), "" | "." | "..");
        match segment.text.as_str() {
            "" | "." => {}
            ".." => {
                // Servers differ in whether an escaped slash separates segments, and whether
                // parameters alone are a segment, and so in what `..` removes.
                match segments.pop() {
                    Some(gone) if gone.has_slash => return Err(AmbiguousTarget::HiddenDots),
                    Some(gone) if gone.text.starts_with(';') => {
                        return Err(AmbiguousTarget::DotsWithParameter);
                    }
                    _ => {}
                }
            }
            _ => segments.push(segment),
        }
    }
    let mut sound = String::with_capacity(target.len() + 1);
    for segment in &segments {
        sound.push('/');
        sound.push_str(&segment.text);
    }
    if ends_in_slash || sound.is_empty() {
        sound.push('/');
    }
    sound.push_str(query);
    Ok(Cow::Owned(sound))
}

fn is_normalized(path: &[u8]) -> bool {
    let odd = |byte: &u8| matches!(byte, b'%' | b'\\' | 0..=0x1f | 0x7f);
    path.first() == Some(&b'/')
        && !path.iter().any(odd)
        && !path.windows(2).any(|pair| matches!(pair, b"//" | b"/."))
}

/// The value of two hexadecimal digits.
fn hex(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(*bytes.first()?)? * 16 + digit(*bytes.get(1)?)?) as u8)
}

/// The beginnings of `.`, `/` and `\` in two, three and four bytes.
const OVERLONG: [&str; 5] = ["%C0%A", "%C1%9", "%E0%80%", "%E0%81%", "%F0%80%"];

/// Whether a part of a segment is `.` or `..` to a server that ignores parameters.
fn is_dots(part: &[u8]) -> bool {
    let semicolon = part.iter().position(|byte| *byte == b';');
    let escaped = part.windows(3).position(|escape| escape == b"%3B");
    let end = semicolon.into_iter().chain(escaped).min().unwrap_or(part.len());
    matches!(&part[..end], b"." | b"..")
}

struct Segment {
    text: String,
    /// Whether an escaped slash is in it.
    has_slash: bool,
}

impl Segment {
    fn read(segment: &str) -> Result<Segment, AmbiguousTarget> {
        let mut bytes = Vec::with_capacity(segment.len());
        let mut has_slash = false;
        let mut rest = segment.as_bytes();
        // Where the part between escaped slashes begins.
        let mut part = 0;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' {
                if byte.is_ascii_control() {
                    return Err(AmbiguousTarget::Control);
                }
                bytes.push(byte);
                continue;
            }
            let value = hex(after).ok_or(AmbiguousTarget::BrokenEscape)?;
            rest = &after[2..];
            match value {
                0..=0x1f | 0x7f => return Err(AmbiguousTarget::Control),
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    bytes.push(value);
                }
                _ => {
                    let is_slash = matches!(value, b'/' | b'\\');
                    if is_slash && is_dots(&bytes[part..]) {
                        return Err(AmbiguousTarget::HiddenDots);
                    }
                    bytes.extend_from_slice(format!("%{value:02X}").as_bytes());
                    if is_slash {
                        (has_slash, part) = (true, bytes.len());
                    }
                }
            }
        }
        if has_slash && is_dots(&bytes[part..]) {
            return Err(AmbiguousTarget::HiddenDots);
        }
        // Only whole escapes were replaced, by ASCII.
        let text = String::from_utf8(bytes).map_err(|_| AmbiguousTarget::BrokenEscape)?;
        if OVERLONG.iter().any(|overlong| text.contains(overlong)) {
            return Err(AmbiguousTarget::Overlong);
        }
        if !matches!(text.as_str(), "." | "..") && is_dots(text.as_bytes()) {
            return Err(AmbiguousTarget::DotsWithParameter);
        }
        Ok(Segment { text, has_slash })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use tollgate_rules::normalize_path;

    use super::*;

    #[test]
    fn targets_are_normalised() {
        for (target, sound) in [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("//a//b//", "/a/b/"),
            ("/a/./b/..", "/a/"),
            ("/../../a", "/a"),
            ("/a\\b", "/a/b"),
            ("/%61%2fb%c3%a9", "/a%2Fb%C3%A9"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/b?x=//../%zz", "/a/b?x=//../%zz"),
            ("/a%252e", "/a%252e"),
            ("/a#b", "/a"),
            ("/a;x=..;/b..;c", "/a;x=..;/b..;c"),
            ("*", "*"),
        ] {
            assert_eq!(forward_target(target).as_deref(), Ok(sound), "{target}");
        }
    }

    #[test]
    fn ambiguous_targets_are_refused() {
        for (target, why) in [
            ("/a%00", AmbiguousTarget::Control),
            ("/a%0d%0ab", AmbiguousTarget::Control),
            ("/a\u{7f}", AmbiguousTarget::Control),
            ("/a%", AmbiguousTarget::BrokenEscape),
            ("/a%4", AmbiguousTarget::BrokenEscape),
            ("/a%g0", AmbiguousTarget::BrokenEscape),
            ("/..%2fb", AmbiguousTarget::HiddenDots),
            ("/a%5c%2e%2e", AmbiguousTarget::HiddenDots),
            ("/a%2f./b", AmbiguousTarget::HiddenDots),
            ("/a%2fb/../c", AmbiguousTarget::HiddenDots),
            ("/x/..;/admin", AmbiguousTarget::DotsWithParameter),
            ("/x/%2e.;a=b/admin", AmbiguousTarget::DotsWithParameter),
            ("/x/..%3b/admin", AmbiguousTarget::DotsWithParameter),
            ("/.;/admin", AmbiguousTarget::DotsWithParameter),
            ("/x%2f..;/admin", AmbiguousTarget::HiddenDots),
            ("/admin/;x/../y", AmbiguousTarget::DotsWithParameter),
            ("/a\\;/../", AmbiguousTarget::DotsWithParameter),
            ("/x/%c0%ae%c0%ae/admin", AmbiguousTarget::Overlong),
            ("/x%c0%afadmin", AmbiguousTarget::Overlong),
            ("a/b", AmbiguousTarget::NoPath),
            ("", AmbiguousTarget::NoPath),
        ] {
            assert_eq!(forward_target(target), Err(why), "{target}");
        }
    }

    proptest! {
        #[test]
        fn a_normalised_target_matches_the_same_rules(
            target in "/(a|b|/|\\.|\\.\\.|\\\\|%2[fFeE]|%5c|%61|%7e|%20|%c3|é|;|=){0,12}(\\?(/|\\.\\.|%2f){0,3})?"
        ) {
            if let Ok(sound) = forward_target(&target) {
                prop_assert_eq!(normalize_path(&sound), normalize_path(&target));
                prop_assert_eq!(forward_target(&sound), Ok(sound.clone()));
            }
        }
    }
}
