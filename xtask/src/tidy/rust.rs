//! Rules for any Rust file: it says what it is for, hides no unfinished or skipped work, does not
//! sleep in tests, and is safe.

use super::lex::{Source, has_word, is_word, word_offsets};
use super::{Finding, UNSAFE_FILES, text};

pub(super) fn check(path: &str, text: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |line, what: String| findings.push(Finding::new(path, line, what));

    if !text.starts_with("//!") {
        add(1, "does not say what it is for: open it with a `//!` comment".into());
    }
    let unsafe_listed = UNSAFE_FILES.iter().any(|(listed, _)| *listed == path);
    for (line, code) in (1..).zip(source.code.lines()) {
        for name in ["todo", "unimplemented", "dbg"] {
            if calls_macro(code, name) {
                add(line, format!("`{name}!` is unfinished work: finish it or remove it"));
            }
        }
        if code.contains("#[ignore") {
            add(line, "a test that is skipped proves nothing: mend it or remove it".into());
        }
        if !unsafe_listed && has_word(code, "unsafe") {
            let what = "`unsafe` outside an audited file: do without, or audit and list the file \
                        in UNSAFE_FILES";
            add(line, what.into());
        }
    }
    for (line, comment) in (1..).zip(source.comments.lines()) {
        if let Some(marker) = text::leftover(comment) {
            add(line, format!("`{marker}`: do it now, or open an issue and say so there"));
        }
        if comment.contains("```ignore") {
            add(line, "a doctest that is skipped: make it run, or mark it `text`".into());
        }
    }
    for (line, content) in (1..).zip(text.lines()) {
        if content.contains('\t') {
            add(line, "tab: indent with spaces, and write `\\t` in strings".into());
        }
    }
    for line in sleeps(path, source) {
        add(line, "a test that sleeps is slow and flaky: move a manual clock instead".into());
    }
    findings
}

/// Lines of tests that sleep.
fn sleeps(path: &str, source: &Source) -> Vec<usize> {
    let all_tests = path.split('/').any(|part| part == "tests" || part == "tests.rs");
    let regions = source.test_regions();
    let is_test = |line| all_tests || regions.iter().any(|region| region.contains(&line));
    let sleeps = |code: &str| code.contains("thread::sleep") || code.contains("time::sleep(");
    (1..)
        .zip(source.code.lines())
        .filter(|(line, code)| sleeps(code) && is_test(*line))
        .map(|(line, _)| line)
        .collect()
}

fn calls_macro(code: &str, name: &str) -> bool {
    word_offsets(code, name).into_iter().any(|at| {
        let rest = &code[at + name.len()..];
        // `todo!(`, `todo! {`; but neither `todo != x` nor `todo!=x`.
        rest.strip_prefix('!').is_some_and(|rest| !rest.starts_with(|c| c == '=' || is_word(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Findings as `line: what`, for code below a proper opening line.
    fn whats(path: &str, code: &str) -> Vec<String> {
        let text = format!("//! Doc.\n{code}\n");
        let findings = check(path, &text, &Source::new(&text));
        findings.iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn a_file_opens_with_what_it_is_for() {
        let text = "use std::fmt;\n";
        assert_eq!(check("a.rs", text, &Source::new(text)).len(), 1);
        assert!(whats("a.rs", "use std::fmt;").is_empty());
    }

    #[test]
    fn unfinished_work_is_found_in_code_and_comments() {
        assert!(whats("a.rs", "fn f() { todo!() }")[0].starts_with("2: `todo!`"));
        assert_eq!(whats("a.rs", "fn f() { unimplemented!(\"x\"); std::dbg!(1); }").len(), 2);
        assert_eq!(whats("a.rs", "// FIXME: later").len(), 1);
        assert!(whats("a.rs", "let x = \"todo!() TODO\"; if todo != dbg {}").is_empty());
    }

    #[test]
    fn skipped_tests_are_found() {
        assert_eq!(whats("a.rs", "#[ignore = \"slow\"]").len(), 1);
        assert_eq!(whats("a.rs", "/// ```ignore\n/// x\n/// ```").len(), 1);
        assert!(whats("a.rs", "/// ```text\n/// x\n/// ```").is_empty());
    }

    #[test]
    fn tests_do_not_sleep_but_programs_may() {
        let sleep = "fn f() { std::thread::sleep(d); }";
        assert!(whats("crates/a/src/a.rs", sleep).is_empty());
        assert_eq!(whats("crates/a/tests/a.rs", sleep).len(), 1);
        assert_eq!(whats("crates/a/src/b/tests.rs", sleep).len(), 1);
        let inner = "#[cfg(test)]\nmod tests {\n    fn f() { tokio::time::sleep(d).await }\n}";
        assert!(whats("crates/a/src/a.rs", inner)[0].starts_with("4: a test that sleeps"));
        let outer = "#[cfg(test)]\nmod tests {}\nfn f() { tokio::time::sleep(d).await }";
        assert!(whats("crates/a/src/a.rs", outer).is_empty());
    }

    #[test]
    fn unsafe_is_a_keyword_not_a_word_of_prose() {
        assert_eq!(whats("a.rs", "unsafe { f() }").len(), 1);
        assert!(whats("a.rs", "// unsafe is banned\n#![forbid(unsafe_code)]").is_empty());
    }

    #[test]
    fn tabs_are_found() {
        assert_eq!(whats("a.rs", "\tfn f() {}").len(), 1);
    }
}
