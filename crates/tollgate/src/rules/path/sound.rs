//! The target of a request as it may be sent on: every server reads it as the rules did.

use std::borrow::Cow;

use super::hex;

/// Why a target cannot be sent on: servers would read it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnsoundPath {
    /// It does not begin with a slash.
    NoPath,
    /// A `%` without two digits after it.
    BrokenEscape,
    /// A control character, written as such or escaped.
    Control,
    /// An escaped slash beside `.` or `..`: whether it is a separator decides where it leads.
    HiddenDots,
}

impl std::fmt::Display for UnsoundPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            UnsoundPath::NoPath => "the target does not begin with /",
            UnsoundPath::BrokenEscape => "the path has a % without two hexadecimal digits",
            UnsoundPath::Control => "the path has a control character",
            UnsoundPath::HiddenDots => "the path has an escaped slash beside dots",
        })
    }
}

impl std::error::Error for UnsoundPath {}

/// The target to send on: the path in the spelling that servers agree about, with its query as it
/// came. Rules decide the same on both.
///
/// Dot segments are resolved, empty ones merged, `\` is a slash, escapes that need not be are
/// undone and others are in capitals. Escaped slashes stay: rules take them for slashes, servers
/// differ.
///
/// ```
/// use tollgate::rules::{UnsoundPath, sound_path};
/// assert_eq!(sound_path("//a/./x/../%62?c=/../d").unwrap(), "/a/b?c=/../d");
/// assert_eq!(sound_path("/a/..%2fadmin"), Err(UnsoundPath::HiddenDots));
/// ```
pub fn sound_path(target: &str) -> Result<Cow<'_, str>, UnsoundPath> {
    if target == "*" {
        return Ok(Cow::Borrowed(target));
    }
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = match target.find('?') {
        Some(start) => target.split_at(start),
        None => (target, ""),
    };
    if is_sound(path.as_bytes()) {
        return Ok(Cow::Borrowed(target));
    }
    if !path.starts_with(['/', '\\']) {
        return Err(UnsoundPath::NoPath);
    }
    let mut segments: Vec<Segment> = Vec::new();
    let mut ends_in_slash = false;
    for segment in path.split(['/', '\\']) {
        let segment = Segment::read(segment)?;
        ends_in_slash = matches!(segment.text.as_str(), "" | "." | "..");
        match segment.text.as_str() {
            "" | "." => {}
            ".." => {
                // Is one gone, or several? That depends on what its escaped slashes mean.
                if segments.pop().is_some_and(|gone| gone.has_slash) {
                    return Err(UnsoundPath::HiddenDots);
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

fn is_sound(path: &[u8]) -> bool {
    let odd = |byte: &u8| matches!(byte, b'%' | b'\\' | 0..=0x1f | 0x7f);
    path.first() == Some(&b'/')
        && !path.iter().any(odd)
        && !path.windows(2).any(|pair| matches!(pair, b"//" | b"/."))
}

struct Segment {
    text: String,
    /// Whether an escaped slash is in it.
    has_slash: bool,
}

impl Segment {
    fn read(segment: &str) -> Result<Segment, UnsoundPath> {
        let mut bytes = Vec::with_capacity(segment.len());
        let mut has_slash = false;
        let mut rest = segment.as_bytes();
        // Where the part between escaped slashes begins.
        let mut part = 0;
        let is_dots = |part: &[u8]| matches!(part, b"." | b"..");
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte != b'%' {
                if byte.is_ascii_control() {
                    return Err(UnsoundPath::Control);
                }
                bytes.push(byte);
                continue;
            }
            let value = hex(after).ok_or(UnsoundPath::BrokenEscape)?;
            rest = &after[2..];
            match value {
                0..=0x1f | 0x7f => return Err(UnsoundPath::Control),
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    bytes.push(value);
                }
                _ => {
                    let is_slash = matches!(value, b'/' | b'\\');
                    if is_slash && is_dots(&bytes[part..]) {
                        return Err(UnsoundPath::HiddenDots);
                    }
                    bytes.extend_from_slice(format!("%{value:02X}").as_bytes());
                    if is_slash {
                        (has_slash, part) = (true, bytes.len());
                    }
                }
            }
        }
        if has_slash && is_dots(&bytes[part..]) {
            return Err(UnsoundPath::HiddenDots);
        }
        // Only whole escapes were replaced, by ASCII.
        let text = String::from_utf8(bytes).map_err(|_| UnsoundPath::BrokenEscape)?;
        Ok(Segment { text, has_slash })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::normal;
    use super::*;

    #[test]
    fn what_is_sent_on_has_one_spelling() {
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
            ("*", "*"),
        ] {
            assert_eq!(sound_path(target).as_deref(), Ok(sound), "{target}");
        }
    }

    #[test]
    fn what_servers_would_read_differently_is_not_sent_on() {
        for (target, why) in [
            ("/a%00", UnsoundPath::Control),
            ("/a%0d%0ab", UnsoundPath::Control),
            ("/a\u{7f}", UnsoundPath::Control),
            ("/a%", UnsoundPath::BrokenEscape),
            ("/a%4", UnsoundPath::BrokenEscape),
            ("/a%g0", UnsoundPath::BrokenEscape),
            ("/..%2fb", UnsoundPath::HiddenDots),
            ("/a%5c%2e%2e", UnsoundPath::HiddenDots),
            ("/a%2f./b", UnsoundPath::HiddenDots),
            ("/a%2fb/../c", UnsoundPath::HiddenDots),
            ("a/b", UnsoundPath::NoPath),
            ("", UnsoundPath::NoPath),
        ] {
            assert_eq!(sound_path(target), Err(why), "{target}");
        }
    }

    proptest! {
        #[test]
        fn rules_decide_the_same_on_what_is_sent_on(
            target in "/(a|b|/|\\.|\\.\\.|\\\\|%2[fFeE]|%5c|%61|%7e|%20|%c3|é|;|=){0,12}(\\?(/|\\.\\.|%2f){0,3})?"
        ) {
            if let Ok(sound) = sound_path(&target) {
                prop_assert_eq!(normal(&sound), normal(&target));
                prop_assert_eq!(sound_path(&sound), Ok(sound.clone()));
            }
        }
    }
}
