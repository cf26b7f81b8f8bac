//! `cargo xtask tidy`: the style of this project, made executable.
//!
//! Every rule is a pure function from a path and its text to findings, so each is tested on a few
//! lines in memory; only [`run`] touches the disk. All findings are printed at once. The lists
//! below are the only exceptions, and they only shrink.

mod lex;
mod map;
mod pure;
mod rust;
mod text;
mod vocabulary;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use crate::{Result, sh};

/// Lines a source file may have.
const MAX_LINES: usize = 400;
/// Lines the README may have: depth belongs in rustdoc and docs/.
const MAX_README_LINES: usize = 150;

/// Files longer than [`MAX_LINES`], each with its length. Never add one and never raise a number:
/// split the file instead.
const LONG_FILES: &[(&str, usize)] = &[];

/// Files that may use `unsafe`, each with the reason. Adding one means auditing it.
const UNSAFE_FILES: &[(&str, &str)] = &[];

/// A violation of the style: its position, the error and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

pub(crate) fn run() -> Result {
    let files = files()?;
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|(path, text)| check(path, text)).collect();
    findings.extend(map::check(&files));
    findings.extend(vocabulary::repeated_types(&files));
    findings.extend(stale_exceptions(&files));
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing to fix", files.len());
            Ok(())
        }
        n => Err(format!("tidy: {n} to fix in {} files", files.len()).into()),
    }
}

/// Every rule that looks at one file alone.
fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = text::check(path, text);
    if path.ends_with(".rs") {
        let source = lex::Source::new(text);
        findings.extend(rust::check(path, text, &source));
        if !path.contains("/proto/") {
            findings.extend(vocabulary::check(path, &source));
        }
        if path.starts_with("crates/tollgate-core/src/") {
            findings.extend(pure::check(path, &source));
        }
    }
    findings
}

/// Folders with files that stay as programs wrote them: inputs of parsers, and released formats.
const VERBATIM: [&str; 2] = ["fuzz/corpus/", "spec/formats/"];

/// Returns the text files that git tracks or would track, by path, except those that stay as they are.
fn files() -> Result<BTreeMap<String, String>> {
    let listed = sh::command("git", &["ls-files", "-co", "--exclude-standard", "-z"]).output()?;
    if !listed.status.success() {
        let error = String::from_utf8_lossy(&listed.stderr);
        return Err(format!("tidy: git ls-files: {error}").into());
    }
    let root = sh::root();
    let mut files = BTreeMap::new();
    for path in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        if VERBATIM.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        // Listed but deleted, a link to a folder, a nested repository: nothing to read.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes)
            && !text.contains('\0')
        {
            files.insert(path.to_owned(), text);
        }
    }
    Ok(files)
}

/// The lists only shrink: an exception that is no longer needed has to go.
fn stale_exceptions(files: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, max) in LONG_FILES {
        let lines = files.get(*path).map_or(0, |text| text.lines().count());
        if lines <= MAX_LINES {
            findings.push(Finding::new(path, 1, "is short now: remove it from LONG_FILES"));
        } else if lines < *max {
            let what = format!("has shrunk: lower its entry in LONG_FILES to {lines}");
            findings.push(Finding::new(path, 1, what));
        }
    }
    for (path, _) in UNSAFE_FILES {
        let used = files.get(*path).is_some_and(|text| {
            lex::Source::new(text).code.lines().any(|line| lex::has_word(line, "unsafe"))
        });
        if !used {
            findings.push(Finding::new(path, 1, "is safe now: remove it from UNSAFE_FILES"));
        }
    }
    findings
}

/// Lines `path` may have, if it is source.
fn line_limit(path: &str) -> Option<usize> {
    const SOURCE: [&str; 7] = [".rs", ".lua", ".js", ".mjs", ".css", ".py", ".sh"];
    if !SOURCE.iter().any(|ending| path.ends_with(ending)) {
        return None;
    }
    let listed = LONG_FILES.iter().find(|(long, _)| *long == path);
    Some(listed.map_or(MAX_LINES, |(_, max)| *max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_reads_as_a_place_and_a_sentence() {
        let finding = Finding::new("a/b.rs", 7, "trailing space: remove it");
        assert_eq!(finding.to_string(), "a/b.rs:7: trailing space: remove it");
    }

    #[test]
    fn purity_is_asked_of_core_only() {
        let text = "//! Doc.\nfn f() -> f64 { 0.0 }\n";
        assert!(check("crates/tollgate/src/a.rs", text).is_empty());
        assert!(!check("crates/tollgate-core/src/a.rs", text).is_empty());
        assert!(check("crates/tollgate-core/benches/a.rs", text).is_empty());
    }

    #[test]
    fn exceptions_name_files_that_need_them() {
        assert!(LONG_FILES.iter().all(|(_, max)| *max > MAX_LINES));
        assert!(UNSAFE_FILES.iter().all(|(_, reason)| !reason.is_empty()));
    }
}
