//! The code map is complete: ARCHITECTURE.md names every crate.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::lex::is_word;

const DOCUMENT: &str = "ARCHITECTURE.md";

pub(super) fn check(files: &BTreeMap<String, String>) -> Vec<Finding> {
    let Some(text) = files.get(DOCUMENT) else { return Vec::new() };
    let (line, section) = code_map(text);
    let missing = |name: &&str| !names(section, name);
    crates(files)
        .into_iter()
        .filter(missing)
        .map(|name| {
            let what = format!("crate `{name}` is not in the code map: say what lives there");
            Finding::new(DOCUMENT, line, what)
        })
        .collect()
}

fn crates(files: &BTreeMap<String, String>) -> BTreeSet<&str> {
    files
        .keys()
        .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .filter(|name| !name.contains('/'))
        .collect()
}

/// The section called "code map", and its line; the whole document if no heading says so.
fn code_map(text: &str) -> (usize, &str) {
    let level = |line: &str| line.chars().take_while(|&c| c == '#').count();
    let mut offset = 0;
    let mut start = None;
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        match start {
            None if level(line) > 0 && line.to_lowercase().contains("code map") => {
                start = Some((number, offset, level(line)));
            }
            // The section ends with the next heading that is not below its own.
            Some((number, from, own)) if (1..=own).contains(&level(line)) => {
                return (number, &text[from..offset]);
            }
            _ => {}
        }
        offset += line.len();
    }
    start.map_or((1, text), |(number, from, _)| (number, &text[from..]))
}

/// Whether `name` occurs by itself: `tollgate-core` does not name `tollgate`.
fn names(text: &str, name: &str) -> bool {
    let joined = |c: char| is_word(c) || c == '-';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(joined) && !text[at + name.len()..].starts_with(joined)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(document: Option<&str>) -> Vec<String> {
        let mut files: BTreeMap<String, String> =
            ["crates/tollgate/Cargo.toml", "crates/tollgate-core/Cargo.toml", "xtask/Cargo.toml"]
                .map(|path| (path.to_owned(), String::new()))
                .into();
        files.extend(document.map(|text| (DOCUMENT.to_owned(), text.to_owned())));
        check(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_crate_is_named_by_itself() {
        assert!(findings(None).is_empty());
        assert!(findings(Some("# Code map\n`tollgate`, `crates/tollgate-core/`\n")).is_empty());
        let found = findings(Some("# Of tollgate\n## Code map\n- `tollgate-core`\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("ARCHITECTURE.md:2: crate `tollgate` "), "{}", found[0]);
    }

    #[test]
    fn the_code_map_ends_with_its_section() {
        let text = "## Code map\n`tollgate`\n### More\n`tollgate-core`\n## Next\n";
        assert!(findings(Some(text)).is_empty());
        let text = "## Code map\n`tollgate`\n## Next\n`tollgate-core`\n";
        assert_eq!(findings(Some(text)).len(), 1);
    }
}
