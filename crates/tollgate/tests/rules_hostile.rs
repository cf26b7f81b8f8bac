//! Files that mean harm: whatever they say, reading them costs at most 32 MiB and 100 ms.
//!
//! Memory is counted, not guessed. Time is that of this thread on a processor, and the promise is
//! one of release builds; others are held to a multiple that no mistake of growth would keep.
#![cfg(feature = "rules")]

use std::fmt::Write as _;

use tollgate::rules::{Diagnostics, Rules, Source};

/// What a file may cost, the text itself included.
const HOSTILE: Bounds =
    Bounds { bytes: 32 << 20, millis: if cfg!(debug_assertions) { 3_000 } else { 100 } };
/// A good file is compiled and kept: that is what it is for, so it may cost more.
const GOOD: Bounds =
    Bounds { bytes: 96 << 20, millis: if cfg!(debug_assertions) { 10_000 } else { 1_000 } };

struct Bounds {
    bytes: u64,
    millis: u128,
}

/// The longest text that is read at all.
const LONGEST: usize = 4 << 20;

/// What this thread has spent on a processor, in milliseconds.
#[cfg(target_os = "linux")]
fn spent_millis() -> u128 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    spent.tv_sec as u128 * 1_000 + spent.tv_nsec as u128 / 1_000_000
}

#[cfg(not(target_os = "linux"))]
fn spent_millis() -> u128 {
    0
}

/// Reads a text, renders what is wrong with it, and holds both to the promise.
fn read(name: &str, text: String, bounds: Bounds) -> Result<Rules, Diagnostics> {
    let mut result = None;
    let length = text.len() as u64;
    let before = spent_millis();
    let used = allocation_counter::measure(|| {
        let rules = Rules::read([Source::new("hostile.yaml", text)]);
        if let Err(found) = &rules {
            assert!(!found.to_string().is_empty());
            assert!(found.findings().count() >= 1);
        }
        result = Some(rules);
    });
    let millis = spent_millis() - before;
    let bytes = used.bytes_max + length;
    println!("{name}: {} KiB, {millis} ms", bytes >> 10);
    assert!(bytes <= bounds.bytes, "{name} takes {bytes} bytes");
    assert!(millis <= bounds.millis, "{name} takes {millis} ms");
    result.unwrap()
}

fn refused(name: &str, text: String, code: &str) {
    let found = read(name, text, HOSTILE).expect_err(name);
    let codes: Vec<&str> = found.iter().map(|found| found.code()).collect();
    assert!(codes.contains(&code), "{name}: {:?}", &codes[..codes.len().min(5)]);
}

/// `piece` as often as it fits into the longest text, between two others.
fn filled(start: &str, piece: &str, end: &str) -> String {
    let count = (LONGEST - start.len() - end.len()) / piece.len();
    format!("{start}{}{end}", piece.repeat(count))
}

#[test]
fn aliases_of_aliases_are_counted_as_what_they_stand_for() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..30 {
        let last = n - 1;
        writeln!(text, "a{n}: &a{n} [{}]", vec![format!("*a{last}"); 9].join(", ")).unwrap();
    }
    refused("alias bomb", text, "too-large");
    let mut text = "a0: &a0 {}\n".to_owned();
    for n in 1..1_000 {
        writeln!(text, "a{n}: &a{n} {{ <<: *a{} }}", n - 1).unwrap();
    }
    refused("alias chain", text, "too-deep");
    let big = "k: v, ".repeat(30_000);
    let mut text = format!("rules:\n  - &big {{ {big} }}\n");
    text.push_str(&"  - { <<: *big, name: a }\n".repeat(10_000));
    refused("merge bomb", text, "too-large");
}

#[test]
fn depth_is_bounded_however_it_is_written() {
    refused("brackets", filled("", "[", ""), "too-deep");
    refused("braces", filled("", "{a: ", ""), "too-deep");
    refused("dashes", filled("rules: \n", "- ", ""), "too-deep");
    let steps: String = (0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    refused("indentation", steps, "too-deep");
}

#[test]
fn size_is_bounded_in_bytes_and_in_values() {
    refused("one byte too long", "#".repeat(LONGEST + 1), "too-large");
    refused("list", filled("rules: [", "a,", "]"), "too-large");
    refused(
        "keys",
        {
            let keys: String = (0..400_000).map(|n| format!("k{n}:\n")).collect();
            keys
        },
        "too-large",
    );
    refused("question marks", filled("", "? a\n", ""), "too-large");
    refused("anchors", filled("rules: [", "&a a,", "]"), "too-many");
    refused("aliases", filled("a: &a b\nrules: [", "*a,", "]"), "too-large");
}

#[test]
fn long_texts_are_not_copied_around() {
    refused("one text", filled("rules: ", "a", ""), "wrong-kind");
    refused("one quoted text", filled("rules: \"", "\\x41", "\""), "wrong-kind");
    refused("one block", filled("rules: |\n", "  abc\n", ""), "wrong-kind");
    refused("folded", filled("rules: >\n", "  a\n\n", ""), "wrong-kind");
    refused("a long name", filled("rules: [{ name: ", "a", ", limit: 1/s }]"), "too-large");
    refused("a long key", filled("? ", "k", "\n: v\n"), "unknown-field");
    refused("a comment", filled("", "#", ""), "empty");
    refused("empty lines", filled("", "\n", ""), "empty");
    refused("blanks", filled("rules:", " ", ""), "wrong-kind");
    refused("tabs", filled("rules:\n", "\t", "- a\n"), "yaml");
    refused("directives", filled("", "%X\n", ""), "yaml");
    refused("documents", filled("", "---\n", ""), "several-documents");
    refused("quotes", filled("rules: [", "'',", "]"), "too-large");
    refused("percent", filled("rules: ", "!%41", ""), "yaml");
}

#[test]
fn many_mistakes_cost_no_more_than_a_few() {
    let rules = |rule: &str, count: usize| format!("rules:\n{}", rule.repeat(count));
    refused(
        "unknown fields",
        rules("  - { a: 1, b: 2, c: 3, d: 4, e: 5 }\n", 15_000),
        "unknown-field",
    );
    refused(
        "one rule of unknown fields",
        {
            let fields: String = (0..95_000).map(|n| format!("    nam{n}: 1\n")).collect();
            format!("rules:\n  - name: a\n{fields}")
        },
        "unknown-field",
    );
    refused(
        "duplicate fields",
        format!("rules:\n  - name: a\n{}", "    limit: 1/s\n".repeat(95_000)),
        "duplicate-key",
    );
    refused(
        "duplicate attributes",
        format!("rules: []\nattributes:\n{}", "  org: ip\n".repeat(95_000)),
        "duplicate-key",
    );
    refused("duplicate rules", rules("  - { name: a, limit: 1/s }\n", 35_000), "duplicate-name");
    refused("bad limits", rules("  - { name: a, limit: 10/mn slidng }\n", 35_000), "bad-limit");
    refused(
        "bad zones",
        rules("  - { name: a, limit: 1/month calendar zone Europe/Berln }\n", 35_000),
        "bad-limit",
    );
    refused("bad actions", rules("  - { name: a, limit: 1/s, then: ban [1min }\n", 20_000), "yaml");
    refused(
        "bad overrides",
        format!(
            "rules: []\noverrides:\n{}",
            "  - { match: { a: b }, rule: c, until: d }\n".repeat(18_000)
        ),
        "bad-date",
    );
}

#[test]
fn the_largest_good_files_are_read() {
    let mut rules = "rules:\n".to_owned();
    for n in 0..10_000 {
        writeln!(
            rules,
            "  - {{ name: rule-{n}, route: GET /path/{n}, per: [ip, user], limit: [10/s burst 20, 1k/h], then: deny }}"
        )
        .unwrap();
    }
    let rules = read("ten thousand rules", rules, GOOD);
    assert!(rules.is_ok(), "{}", rules.unwrap_err());
    let mut list = "rules: []\nlists:\n  office:\n".to_owned();
    for n in 0..190_000 {
        writeln!(list, "    - {}.{}.{}.0/24", 1 + n / 65_536, n / 256 % 256, n % 256).unwrap();
    }
    let rules = read("a list of addresses", list, GOOD);
    assert!(rules.is_ok(), "{}", rules.unwrap_err());
}
