//! Patterns in which `*` stands for any text.

pub(super) use tollgate_rules::glob_matches as matches;

/// Returns whether a text may match both patterns: not if they begin or end differently.
pub(super) fn may_overlap(a: &str, b: &str) -> bool {
    let head = |glob: &str| glob.split('*').next().unwrap_or_default().to_owned();
    let tail = |glob: &str| glob.rsplit('*').next().unwrap_or_default().to_owned();
    let ((head_a, head_b), (tail_a, tail_b)) = ((head(a), head(b)), (tail(a), tail(b)));
    (head_a.starts_with(&head_b) || head_b.starts_with(&head_a))
        && (tail_a.ends_with(&tail_b) || tail_b.ends_with(&tail_a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        for (glob, text, expected) in [
            ("a*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("*b*", "abc", true),
            ("a*b*c", "axc", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(glob, text), expected, "{glob} {text}");
        }
        assert!(!may_overlap("a*", "b*") && !may_overlap("*x", "*y") && may_overlap("a*", "ab*"));
    }
}
