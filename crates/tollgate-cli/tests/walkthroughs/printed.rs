//! Compares the output of a command with the output in a page.

/// The placeholder for varying text.
const ANYTHING: &str = "…";

/// Returns whether the output matches the lines of a page.
pub(crate) fn agrees(shown: &[String], printed: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else { return printed.is_empty() };
    if first.trim() == ANYTHING {
        return (0..=printed.len()).any(|skipped| agrees(rest, &printed[skipped..]));
    }
    let Some((line, others)) = printed.split_first() else { return false };
    line_agrees(first, line) && agrees(rest, others)
}

fn line_agrees(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once(ANYTHING) else { return shown == printed };
    let Some(rest) = printed.strip_prefix(before) else { return false };
    let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.any(|at| line_agrees(after, &rest[at..]))
}

#[test]
fn only_the_varying_parts_are_skipped() {
    let agrees = |shown: &[&str], printed: &[&str]| {
        let shown: Vec<String> = shown.iter().map(|line| String::from(*line)).collect();
        agrees(&shown, printed)
    };
    assert!(agrees(&[], &[]) && agrees(&["a"], &["a"]) && agrees(&["…"], &[]));
    assert!(agrees(&["a…c"], &["abc"]) && agrees(&["a…c"], &["ac"]) && agrees(&["…b…"], &["abc"]));
    assert!(agrees(&["a", "…", "d"], &["a", "b", "c", "d"]) && agrees(&["a…"], &["aé"]));
    assert!(!agrees(&[], &["a"]) && !agrees(&["a"], &[]) && !agrees(&["a"], &["ab"]));
    assert!(!agrees(&["a…c"], &["abd"]) && !agrees(&["a…"], &["b"]) && !agrees(&["…c"], &["ca"]));
    assert!(!agrees(&["a…"], &["a", "b"]) && !agrees(&["a", "…", "d"], &["a", "b"]));
}
