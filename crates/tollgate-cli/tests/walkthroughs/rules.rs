//! Rules in any page of the documentation are right, and keep the promises written beside them.

use std::path::Path;

use tollgate::Rules;

use crate::page::{Page, root};

/// Every page below a folder, from the root of the repository.
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
fn rules_in_the_documentation_are_right() {
    let mut read = 0;
    for name in ["README.md".to_owned()].into_iter().chain(pages("docs")) {
        let page = Page::open(&name);
        // Other programs are configured in YAML as well.
        let blocks = page.of("yaml").filter(|block| block.text.contains("rules:"));
        for block in blocks {
            let place = format!("{name}:{}", block.line);
            let rules: Rules =
                block.text.parse().unwrap_or_else(|error| panic!("{place}\n{error}"));
            // Somebody at their desk has no proxy that would set such a header for them.
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
