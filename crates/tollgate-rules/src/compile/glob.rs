//! Patterns in which `*` stands for any text, also none and also one with slashes.
//!
//! Conditions, lists, routes and Envoy's wildcards all use it. There is no other special character
//! and nothing is escaped. A match takes time linear in the text: the pieces between stars are
//! searched from left to right, each once, and the first occurrence is taken.

mod set;

pub(crate) use set::Globs;

/// Whether a text is a pattern rather than a plain text.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

/// Whether `text` matches `pattern`.
///
/// ```
/// use tollgate_rules::glob_matches;
/// assert!(glob_matches("svc-*", "svc-mail"));
/// assert!(!glob_matches("svc-*", "mail"));
/// ```
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    let inner = text.strip_prefix(prefix).and_then(|text| text.strip_suffix(suffix));
    inner.is_some_and(|inner| in_order(middle, inner))
}

/// Whether the pieces of `pattern` occur in `text` one after the other.
fn in_order(pattern: &str, mut text: &str) -> bool {
    pattern.split('*').filter(|piece| !piece.is_empty()).all(|piece| {
        let position = text.find(piece);
        text = position.map_or("", |at| &text[at + piece.len()..]);
        position.is_some()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "a/b", true),
            ("svc-*", "svc-", true),
            ("svc-*", "svc-a", true),
            ("svc-*", "svc", false),
            ("*.json", "a.json", true),
            ("*.json", "a.json5", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*bc*bcd", "abcd", false),
            ("**", "x", true),
            ("*é*", "café!", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
    }

    /// The definition, without regard to time.
    fn matches_by_backtracking(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => {
                (0..=text.len()).any(|skip| matches_by_backtracking(rest, &text[skip..]))
            }
            Some((byte, rest)) => {
                text.first() == Some(byte) && matches_by_backtracking(rest, &text[1..])
            }
        }
    }

    proptest! {
        #[test]
        fn as_defined(pattern in "[ab*]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &text), matches_by_backtracking(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
