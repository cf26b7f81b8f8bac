//! The vocabulary, made executable: type names are unique in their crate and have a head noun,
//! retired words stay retired, and doc comments stand alone. The glossary is `docs/glossary.md`.

use std::collections::BTreeMap;

use super::Finding;
use super::lex::{Source, is_word, word_offsets};

/// Type names that one crate may use more than once, each with the reason.
const REPEATED_TYPES: &[(&str, &str, &str)] = &[];

/// Type names without a head noun: what is it that was told, kept or asked?
const BARE_TYPES: &[&str] = &[
    "Again", "Answer", "Aside", "Asked", "Brought", "Crowd", "Desk", "Fleet", "Found", "Guest",
    "Heard", "Held", "How", "Inside", "Kept", "Known", "Lane", "Newcomer", "Others", "Place",
    "Purse", "Room", "Said", "Seat", "Seen", "Spot", "Told", "Vigil", "Which", "Who",
];

/// Words that are no longer ours, and the word of the field for each. Checked in comments and in
/// the parts of every identifier.
const RETIRED_WORDS: &[(&str, &str)] = &[
    ("vigil", "idle timeout"),
    ("purse", "lease balance"),
    ("newcomer", "waiting request"),
    ("stranger", "untrusted address"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("mends", "fixes"),
    ("whoever", "name the caller, client or request"),
    ("nobody", "name who: no client, no request"),
    ("somebody", "name who: a client, another request"),
];

/// How a doc comment begins that only makes sense after its neighbour.
const LEANING_STARTS: &[&str] = &[
    "The same",
    "The other",
    "The others",
    "Who",
    "Whose",
    "That",
    "Those",
    "These",
    "It",
    "Its",
    "What it",
    "As above",
    "So many",
];

/// Checks that look at one file alone.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |line, what: String| findings.push(Finding::new(path, line, what));
    for (line, comment) in (1..).zip(source.comments.lines()) {
        let prose = comment.to_lowercase();
        for (retired, word) in RETIRED_WORDS {
            if !word_offsets(&prose, retired).is_empty() {
                add(line, format!("`{retired}` is a retired word: {word}"));
            }
        }
    }
    for (line, code) in (1..).zip(source.code.lines()) {
        for (retired, word) in RETIRED_WORDS {
            if identifiers(code).any(|name| parts(name).any(|part| part == *retired)) {
                add(line, format!("`{retired}` is a retired word: {word}"));
            }
        }
        if let Some(name) = declared_type(code)
            && BARE_TYPES.contains(&name)
        {
            add(line, format!("type `{name}` has no head noun: say what it is"));
        }
    }
    for (line, start) in leaning_comments(&source.comments) {
        add(line, format!("a doc comment that begins with `{start}` leans on its neighbour"));
    }
    findings
}

/// Type names that a crate declares in more than one file.
pub(super) fn repeated_types(files: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut declared: BTreeMap<(&str, String), Vec<(&str, usize)>> = BTreeMap::new();
    for (path, text) in files {
        let Some(home) = crate_of(path) else { continue };
        let source = Source::new(text);
        let tests = source.test_regions();
        for (line, code) in (1..).zip(source.code.lines()) {
            if let Some(name) = declared_type(code)
                && !tests.iter().any(|region| region.contains(&line))
            {
                declared.entry((home, name.to_owned())).or_default().push((path, line));
            }
        }
    }
    let mut findings = Vec::new();
    for ((home, name), places) in &declared {
        let listed = REPEATED_TYPES.iter().any(|(c, n, _)| c == home && n == name);
        match (places.len(), listed) {
            (2.., false) => findings.extend(places.iter().map(|(path, line)| {
                let what = format!("type `{name}` is declared {} times in {home}", places.len());
                Finding::new(path, *line, what)
            })),
            (0 | 1, true) => {
                let what = format!("`{name}` is unique now: remove it from REPEATED_TYPES");
                findings.push(Finding::new(places[0].0, places[0].1, what));
            }
            _ => {}
        }
    }
    findings
}

/// The crate whose shipped source a file is: tests and generated code are left out.
fn crate_of(path: &str) -> Option<&str> {
    let (home, rest) =
        path.strip_prefix("crates/").or(path.strip_prefix("tools/"))?.split_once('/')?;
    let file = rest.strip_prefix("src/")?.strip_suffix(".rs")?;
    let skipped = |part: &str| part == "tests" || part == "proto";
    (!file.split('/').any(skipped)).then_some(home)
}

/// The type that a line of code declares.
fn declared_type(code: &str) -> Option<&str> {
    let rest = code.trim_start();
    let rest = match rest.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => rest,
    };
    let rest =
        ["struct ", "enum ", "trait ", "union "].iter().find_map(|kw| rest.strip_prefix(kw))?;
    let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    rest.starts_with(|c: char| c.is_ascii_uppercase()).then_some(&rest[..end])
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_word(c)).filter(|name| !name.is_empty())
}

/// The words an identifier is made of, in lower case.
fn parts(name: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    for piece in name.split('_') {
        let mut word = String::new();
        for c in piece.chars() {
            if c.is_ascii_uppercase() && word.ends_with(|c: char| c.is_ascii_lowercase()) {
                words.push(std::mem::take(&mut word).to_lowercase());
            }
            word.push(c);
        }
        words.push(word.to_lowercase());
    }
    words.into_iter()
}

/// Doc comments that begin with words of [`LEANING_STARTS`]: the line, and the words.
fn leaning_comments(comments: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut is_start = true;
    for (number, line) in (1..).zip(comments.lines()) {
        let line = line.trim_start();
        let Some(text) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_start = true;
            continue;
        };
        if is_start {
            let text = text.trim_start();
            let leans = |start: &&&str| {
                text.strip_prefix(**start).is_some_and(|rest| !rest.starts_with(is_word))
            };
            found.extend(LEANING_STARTS.iter().find(leans).map(|start| (number, *start)));
        }
        is_start = false;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(code: &str) -> Vec<String> {
        let source = Source::new(code);
        let findings = check("crates/a/src/a.rs", &source);
        findings.iter().map(|f| format!("{}: {}", f.line, f.what)).collect()
    }

    #[test]
    fn doc_comments_stand_alone() {
        assert_eq!(whats("/// The same for tonic.\nfn f() {}").len(), 1);
        assert_eq!(whats("/// It is over.\nfn f() {}").len(), 1);
        assert!(whats("/// Items of a list.\nfn f() {}").is_empty());
        assert!(whats("/// Returns a list.\n/// It is sorted.\nfn f() {}").is_empty());
        assert!(whats("/// Thatch for roofs.\nfn f() {}").is_empty());
    }

    #[test]
    fn types_have_a_head_noun() {
        assert_eq!(whats("pub(crate) struct Kept<T>(T);").len(), 1);
        assert!(whats("struct KeptRequest;").is_empty());
    }

    #[test]
    fn retired_words_are_found_in_names_and_comments() {
        assert_eq!(whats("fn mend_all() {}").len(), 1);
        assert_eq!(whats("struct IdleVigil;").len(), 1);
        assert_eq!(whats("// a stranger comes").len(), 1);
        assert!(whats("fn recommend() {} // amended").is_empty());
    }

    #[test]
    fn a_type_name_is_unique_in_its_crate() {
        let files = [
            ("crates/a/src/a.rs", "struct One;\nstruct Two;"),
            ("crates/a/src/b.rs", "enum One {}"),
            ("crates/a/src/c/tests.rs", "struct Two;"),
            ("crates/b/src/b.rs", "struct Two;\n#[cfg(test)]\nmod tests {\n    struct Two;\n}"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let found: Vec<String> = repeated_types(&files).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/a/src/a.rs:1: type `One` is declared 2 times in a"));
    }
}
