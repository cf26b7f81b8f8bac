//! Every finding as people see it: `diagnostics/NAME.yaml` is read, and what is said about it has
//! to be what `diagnostics/NAME.txt` says. `UPDATE=1` writes the texts anew; read them then.
#![cfg(feature = "rules")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tollgate::rules::{CODES, Diagnostics, Rules, Source};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

/// Every bad file, and what is found in it.
fn files() -> BTreeMap<String, Diagnostics> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "yaml") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let found = match Rules::read([Source::new(format!("{name}.yaml"), text)]) {
                Ok(rules) => rules.warnings().clone(),
                Err(found) => found,
            };
            files.insert(name, found);
        }
    }
    files
}

#[test]
fn findings_read_as_they_should() {
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for (name, found) in files() {
        let path = folder().join(format!("{name}.txt"));
        let said = format!("{}\n", found.render(false));
        // Empty lines end without blanks, whatever the renderer does.
        let said: String = said.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert!(!found.is_empty(), "{name}.yaml has nothing wrong");
        if update {
            fs::write(&path, said).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != said {
            wrong.push(format!("{name}:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "run with UPDATE=1 if this is meant:\n{}", wrong.join("\n"));
}

#[test]
fn every_finding_of_reading_has_a_file_that_shows_it() {
    let mut shown: BTreeSet<&str> = BTreeSet::new();
    for found in files().values() {
        shown.extend(found.iter().map(|found| found.code()));
    }
    let written = codes_in("src/rules/read").into_iter().chain(codes_in("src/rules/yaml"));
    let unseen: Vec<String> = written.filter(|code| !shown.contains(code.as_str())).collect();
    assert!(unseen.is_empty(), "no file shows {unseen:?}");
}

#[test]
fn every_code_is_listed_once_with_its_meaning() {
    let listed: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert!(listed.is_sorted() && listed.windows(2).all(|two| two[0] != two[1]));
    assert!(CODES.iter().all(|(_, meaning)| meaning.len() > 10 && !meaning.ends_with('.')));
    let unlisted: Vec<String> =
        codes_in("src/rules").into_iter().filter(|code| !listed.contains(&code.as_str())).collect();
    assert!(unlisted.is_empty(), "add {unlisted:?} to rules/diagnostic/codes.rs");
}

/// Every code that a source below `folder` gives to a finding.
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

/// The first argument of what makes a finding, where it is written out.
fn codes_of(source: &str) -> Vec<String> {
    let makers =
        ["Diagnostic::error(", "Diagnostic::warning(", "Diagnostic::note(", ".at(", ".mistake("];
    let calls = makers.iter().flat_map(|maker| source.split(maker).skip(1));
    let code = |rest: &str| -> Option<String> {
        let (code, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
        let kebab = code.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        kebab.then(|| code.to_owned())
    };
    calls.filter_map(code).collect()
}

#[test]
fn of_many_findings_a_hundred_are_shown_and_the_rest_counted() {
    let text: String = (0..5_000).map(|n| format!("unknown{n}: 1\n")).collect();
    let found = Rules::read([Source::new("many.yaml", text)]).unwrap_err();
    let said = found.to_string();
    assert_eq!(said.matches("error[unknown-field]").count(), 100);
    assert!(said.ends_with("\n\nand at least 401 more"), "{}", &said[said.len() - 100..]);
    assert_eq!(found.iter().count(), 500);
    let two = "a: 1\n".repeat(2);
    let found = Rules::read([Source::new("two.yaml", two)]).unwrap_err();
    assert_eq!(found.len(), 3, "{found}");
}

#[test]
fn colour_is_only_for_those_who_ask() {
    let found = Rules::read([Source::new("a.yaml", "rules: 1")]).unwrap_err();
    assert!(found.render(true).contains("\u{1b}["));
    assert!(!found.render(false).contains('\u{1b}'));
}
