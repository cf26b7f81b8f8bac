//! Rules for any text file: whitespace, length, leftovers, paths of one machine.

use super::{Finding, MAX_README_LINES, lex, line_limit};

/// Folders that exist on one machine only. In two halves, so that this file passes its own rule.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |line, what: String| findings.push(Finding::new(path, line, what));
    // Not `lines`, which would hide a carriage return.
    for (line, content) in (1..).zip(text.split('\n')) {
        if content.ends_with([' ', '\t', '\r']) {
            add(line, "trailing whitespace: remove it".into());
        }
        for folder in MACHINE_PATHS.iter().filter(|folder| content.contains(**folder)) {
            add(line, format!("`{folder}` is a path of one machine: make it relative"));
        }
        // In Rust a marker counts in comments only: see `rust.rs`.
        if !path.ends_with(".rs")
            && let Some(marker) = leftover(content)
        {
            add(line, format!("`{marker}`: do it now, or open an issue and say so there"));
        }
    }
    let lines = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        add(lines, "no newline at the end: add one".into());
    }
    if text.ends_with("\n\n") {
        add(lines, "blank lines at the end: remove them".into());
    }
    if let Some(max) = line_limit(path).filter(|max| lines > *max) {
        add(max + 1, format!("{lines} lines, {max} allowed: split it, one noun a file"));
    }
    if path == "README.md" && lines > MAX_README_LINES {
        let what = format!("{lines} lines, {MAX_README_LINES} allowed: move depth to docs/");
        add(MAX_README_LINES + 1, what);
    }
    findings
}

/// A marker of work left undone.
pub(super) fn leftover(line: &str) -> Option<&'static str> {
    const MARKERS: [&str; 3] = ["TODO", "FIXME", "XXX"];
    MARKERS.into_iter().find(|marker| lex::has_word(line, marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<String> {
        check(path, text).iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        assert!(whats("a.md", "# Title\n\nText.\n").is_empty());
        assert!(whats("empty", "").is_empty());
    }

    #[test]
    fn whitespace_is_found_where_it_is() {
        assert!(whats("a.md", "a\nb \n")[0].starts_with("2: trailing"));
        assert!(whats("a.md", "a\r\n")[0].starts_with("1: trailing"));
        assert!(whats("a.md", "a\nb")[0].starts_with("2: no newline"));
        assert!(whats("a.md", "a\n\n")[0].contains("blank lines at the end"));
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        let text = format!("see {}main\n", MACHINE_PATHS[0]);
        assert!(whats("a.toml", &text)[0].contains("path of one machine"));
        assert!(whats("a.toml", "see work/main and the/root\n").is_empty());
    }

    #[test]
    fn leftovers_are_words_not_letters() {
        assert_eq!(whats("a.sh", "# TODO: more\n").len(), 1);
        assert!(whats("a.sh", "mktemp XXXXXX\n").is_empty());
    }

    #[test]
    fn length_is_limited_for_source_and_readme() {
        let long = "x\n".repeat(401);
        assert!(whats("a.rs", &long)[0].starts_with("401: 401 lines, 400 allowed"));
        assert!(whats("a.rs", &"x\n".repeat(400)).is_empty());
        assert!(whats("data.jsonl", &long).is_empty());
        assert_eq!(whats("README.md", &"x\n".repeat(151)).len(), 1);
        assert!(whats("README.md", &"x\n".repeat(150)).is_empty());
    }
}
