//! Golden files of diagnostics: the report about `diagnostics/NAME.yaml` equals `diagnostics/NAME.txt`.
//!
//! `UPDATE=1` rewrites the reports; review them afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_rules::{CODES, Diagnostics, Rules, Source};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

/// Returns the diagnostics of every file in the folder.
fn files() -> BTreeMap<String, Diagnostics> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let diagnostics = match Rules::read([Source::new(format!("{name}.yaml"), text)]) {
                Ok(rules) => rules.warnings().clone(),
                Err(diagnostics) => diagnostics,
            };
            files.insert(name, diagnostics);
        }
    }
    files
}

#[test]
fn reports_equal_their_golden_files() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for (name, diagnostics) in files() {
        let path = folder().join(format!("{name}.txt"));
        let report = format!("{}\n", diagnostics.render(false));
        // The renderer leaves blanks at the ends of lines; golden files have none.
        let report: String = report.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert!(!diagnostics.is_empty(), "{name}.yaml has nothing wrong");
        if update {
            fs::write(&path, report).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != report {
            wrong.push(format!("{name}:\n{report}"));
        }
    }
    assert!(wrong.is_empty(), "run with UPDATE=1 if this is intended:\n{}", wrong.join("\n"));
}

#[test]
fn every_code_of_the_reader_occurs_in_a_golden_file() {
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    for diagnostics in files().values() {
        shown.extend(diagnostics.iter().map(|diagnostic| diagnostic.code()));
    }
    let used = codes_in("src/read").into_iter();
    let missing: Vec<String> = used.filter(|code| !shown.contains(code.as_str())).collect();
    assert!(missing.is_empty(), "no file shows {missing:?}");
}

#[test]
fn every_code_is_listed_once_with_its_meaning() {
    let listed: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert!(listed.is_sorted() && listed.windows(2).all(|two| two[0] != two[1]));
    assert!(CODES.iter().all(|(_, meaning)| meaning.len() > 10 && !meaning.ends_with('.')));
    let unlisted: Vec<String> =
        codes_in("src").into_iter().filter(|code| !listed.contains(&code.as_str())).collect();
    assert!(unlisted.is_empty(), "add {unlisted:?} to read/diagnostic/codes.rs");
}

/// Returns every code that the source files below `folder` use.
fn codes_in(folder: &str) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                codes.extend(codes_of(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    codes
}

/// Returns the first argument of the calls that create a diagnostic, where it is a literal.
fn codes_of(source: &str) -> Vec<String> {
    let makers = [
        "Diagnostic::error(",
        "Diagnostic::warning(",
        "Diagnostic::note(",
        ".into_diagnostic(",
        ".grammar_error(",
    ];
    let calls = makers.iter().flat_map(|maker| source.split(maker).skip(1));
    let code = |rest: &str| -> Option<String> {
        let (code, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let kebab = code.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        kebab.then(|| code.to_owned())
    };
    calls.filter_map(code).collect()
}

#[test]
fn a_report_shows_a_hundred_findings_and_counts_the_rest() {
    let text: String = (0..5_000).map(|n| format!("unknown{n}: 1\n")).collect();
    let diagnostics = Rules::read([Source::new("many.yaml", text)]).unwrap_err();
    let report = diagnostics.to_string();
    assert_eq!(report.matches("error[unknown-field]").count(), 100);
    assert!(report.ends_with("\n\nand at least 401 more"), "{}", &report[report.len() - 100..]);
    assert_eq!(diagnostics.iter().count(), 500);
    let two = "a: 1\n".repeat(2);
    let diagnostics = Rules::read([Source::new("two.yaml", two)]).unwrap_err();
    assert_eq!(diagnostics.len(), 3, "{diagnostics}");
}

#[test]
fn a_report_is_coloured_only_on_request() {
    let diagnostics = Rules::read([Source::new("a.yaml", "rules: 1")]).unwrap_err();
    assert!(diagnostics.render(true).contains("\u{1b}["));
    assert!(!diagnostics.render(false).contains('\u{1b}'));
}
