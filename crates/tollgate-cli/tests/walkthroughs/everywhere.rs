//! In all pages of the documentation, rules are valid, their cases pass, and links have a target.

use std::path::{Path, PathBuf};

use tollgate_rules::Rules;

use crate::page::{Page, root};

/// Returns every page, as a path from the root of the repository.
fn documentation() -> impl Iterator<Item = String> {
    ["README.md", "ARCHITECTURE.md"].map(String::from).into_iter().chain(pages("docs"))
}

/// Returns every page below a folder, as a path from the root of the repository.
fn pages(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(pages(&path));
        } else if Path::new(&path).extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

#[test]
fn rules_in_the_documentation_are_valid() {
    let mut read = 0;
    for name in documentation() {
        let page = Page::open(&name);
        // Some YAML blocks configure other programs.
        let blocks = page.of("yaml").filter(|block| block.text.contains("rules:"));
        for block in blocks {
            let place = format!("{name}:{}", block.line);
            let rules: Rules =
                block.text.parse().unwrap_or_else(|error| panic!("{place}\n{error}"));
            // The examples have no proxy that sets the headers, so this warning is expected.
            let mut doubts = rules.warnings().iter().filter(|found| found.code() != "client-key");
            assert!(doubts.next().is_none(), "{place}\n{}", rules.warnings());
            for case in rules.run_cases() {
                assert!(case.passed(), "{place}: {}\n{}", case.name, case.failures);
            }
            read += 1;
        }
    }
    assert!(read >= 12, "{read} blocks are too few: are they not found any more?");
}

#[test]
fn links_within_the_repository_have_a_target() {
    let mut followed = 0;
    for name in documentation() {
        let text = std::fs::read_to_string(root().join(&name)).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (link, _) in links.filter(|(link, _)| !link.contains("://")) {
            let file = link.split_once('#').map_or(link, |(file, _)| file);
            let target = if file.is_empty() { root().join(&name) } else { beside(&name, file) };
            assert!(target.exists(), "{name}: {link} leads nowhere");
            followed += 1;
        }
    }
    assert!(followed >= 20, "{followed} links are too few: are they not found any more?");
}

/// Returns all Rust source below a folder.
fn rust_source(folder: &Path) -> String {
    let mut source = String::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            source += &rust_source(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            source += &std::fs::read_to_string(path).unwrap();
        }
    }
    source
}

#[test]
fn the_page_of_guarantees_names_tests_that_exist() {
    let page = std::fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let proof = page.split_once("## Proof").unwrap().1;
    let source = rust_source(&root().join("crates"));
    let (mut files, mut tests) = (0, 0);
    for name in proof.split('`').skip(1).step_by(2) {
        if name.starts_with("tollgate") && name.contains('/') {
            assert!(root().join("crates").join(name).exists(), "{name} does not exist");
            files += 1;
        } else if name.contains('_') && name.len() > 20 {
            assert!(source.contains(&format!("fn {name}(")), "there is no test {name}");
            tests += 1;
        }
    }
    assert!(files >= 20 && tests >= 8, "{files} files and {tests} tests are too few");
}

/// Resolves a path relative to a page.
fn beside(page: &str, path: &str) -> PathBuf {
    root().join(page).parent().unwrap().join(path)
}
