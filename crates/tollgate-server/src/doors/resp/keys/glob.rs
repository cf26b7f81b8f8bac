//! The patterns of `KEYS` and `SCAN`.

/// Returns whether a key matches a pattern of `*`, `?`, `[a-z]`, `[^a]` and `\` escapes.
///
/// A `*` backtracks to the last star only, so the time is bounded by the product of the lengths.
pub(super) fn matches(pattern: &[u8], key: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while from < key.len() {
        match pattern.get(at) {
            Some(b'*') => {
                last_star = Some((at + 1, from));
                at += 1;
                continue;
            }
            Some(_) => {
                let (is_match, next) = match_one(pattern, at, key[from]);
                if is_match {
                    (at, from) = (next, from + 1);
                    continue;
                }
            }
            None => {}
        }
        let Some((after_star, taken)) = last_star else { return false };
        last_star = Some((after_star, taken + 1));
        (at, from) = (after_star, taken + 1);
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

/// Compares one byte with the element of the pattern at `at`; returns where the next one begins.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> (bool, usize) {
    match pattern[at] {
        b'?' => (true, at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte, at + 2),
        b'[' => match_class(pattern, at + 1, byte),
        literal => (literal == byte, at + 1),
    }
}

/// Compares one byte with a class; one without an end goes up to the end of the pattern, as in Redis.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> (bool, usize) {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while let Some(first) = pattern.get(at) {
        match (first, pattern.get(at + 1), pattern.get(at + 2)) {
            (b'\\', Some(literal), _) => {
                found |= *literal == byte;
                at += 2;
            }
            (b']', ..) => return (found != negated, at + 1),
            (low, Some(b'-'), Some(high)) => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                at += 3;
            }
            (literal, ..) => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
    (found != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, key, expected) in [
            ("LIMITS:*", "LIMITS:a", true),
            ("LIMITS:*", "LIMIT:a", false),
            ("*a*b", "xxaxxab", true),
            ("*a*b", "xxaxxba", false),
            ("h?llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-f]llo", "hello", true),
            ("h[a-f", "ha", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), key.as_bytes()), expected, "{pattern} {key}");
        }
    }
}
