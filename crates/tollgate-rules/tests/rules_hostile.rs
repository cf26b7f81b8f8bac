//! Hostile files: reading one costs at most 32 MiB and 100 ms.
//!
//! An allocator counts the memory. Time is the processor time of this thread. The bound of 100 ms
//! applies to release builds; debug builds have a multiple of it that quadratic work still exceeds.

use std::fmt::Write as _;

use tollgate_rules::{Diagnostics, Rules, Source};

/// The bounds of a refused file, its text included.
const HOSTILE: Bounds =
    Bounds { bytes: 32 << 20, millis: if cfg!(debug_assertions) { 3_000 } else { 100 } };
/// The bounds of a valid file, which is compiled and so costs more.
const VALID: Bounds =
    Bounds { bytes: 96 << 20, millis: if cfg!(debug_assertions) { 10_000 } else { 1_000 } };

/// The memory and the time that reading a file may take.
struct Bounds {
    bytes: u64,
    millis: u128,
}

/// The maximum length of a file.
const MAX_BYTES: usize = 4 << 20;

/// Returns the processor time of this thread in milliseconds.
#[cfg(target_os = "linux")]
fn cpu_millis() -> u128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u128 * 1_000 + time.tv_nsec as u128 / 1_000_000
}

#[cfg(not(target_os = "linux"))]
fn cpu_millis() -> u128 {
    0
}

/// Reads a file, renders its errors, and checks the cost of both.
fn read(name: &str, text: String, bounds: Bounds) -> Result<Rules, Diagnostics> {
    let mut result = None;
    let length = text.len() as u64;
    let before = cpu_millis();
    let used = allocation_counter::measure(|| {
        let rules = Rules::read([Source::new("hostile.yaml", text)]);
        if let Err(diagnostics) = &rules {
            assert!(!diagnostics.to_string().is_empty());
            assert!(diagnostics.findings().count() >= 1);
        }
        result = Some(rules);
    });
    let millis = cpu_millis() - before;
    let bytes = used.bytes_max + length;
    println!("{name}: {} KiB, {millis} ms", bytes >> 10);
    assert!(bytes <= bounds.bytes, "{name} takes {bytes} bytes");
    assert!(millis <= bounds.millis, "{name} takes {millis} ms");
    result.unwrap()
}

/// Checks that a file is refused within the bounds, with an error of this code.
fn refused(name: &str, text: String, code: &str) {
    let diagnostics = read(name, text, HOSTILE).expect_err(name);
    let codes: Vec<&str> = diagnostics.iter().map(|diagnostic| diagnostic.code()).collect();
    assert!(codes.contains(&code), "{name}: {:?}", &codes[..codes.len().min(5)]);
}

/// Repeats `piece` between `start` and `end` as often as the maximum length allows.
fn filled(start: &str, piece: &str, end: &str) -> String {
    let count = (MAX_BYTES - start.len() - end.len()) / piece.len();
    format!("{start}{}{end}", piece.repeat(count))
}

#[test]
fn aliases_count_as_the_nodes_they_expand_to() {
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
fn names_that_nothing_declares_cost_little() {
    let mut text = "attributes:\n".to_owned();
    for n in 0..1_000 {
        writeln!(text, "  a_declared_name_of_forty_letters_{n:07}: {{}}").unwrap();
    }
    text.push_str("rules:\n");
    let names = vec!["a_declared_name_of_forty_letters_7654321"; 16].join(", ");
    for n in 0..2_000 {
        writeln!(text, "  - {{ name: rule-{n}, limit: 1/s, per: [{names}] }}").unwrap();
    }
    refused("wrong names", text, "undeclared-name");
    let mut text = "rules: []\nattributes: [".to_owned();
    for n in 0..100_000 {
        write!(text, "a{n}, ").unwrap();
    }
    text.push(']');
    refused("declared names", text, "too-many");
}

#[test]
fn depth_is_bounded_in_every_notation() {
    refused("brackets", filled("", "[", ""), "too-deep");
    refused("braces", filled("", "{a: ", ""), "too-deep");
    refused("dashes", filled("rules: \n", "- ", ""), "too-deep");
    let steps: String = (0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    refused("indentation", steps, "too-deep");
}

#[test]
fn size_is_bounded_in_bytes_and_in_values() {
    refused("one byte too long", "#".repeat(MAX_BYTES + 1), "too-large");
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
fn many_errors_cost_no_more_than_a_few() {
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
fn the_largest_valid_files_are_read() {
    let mut rules = "attributes: [user]\nrules:\n".to_owned();
    for n in 0..10_000 {
        writeln!(
            rules,
            "  - {{ name: rule-{n}, route: GET /path/{n}, per: [ip, user], limit: [10/s burst 20, 1k/h], then: deny }}"
        )
        .unwrap();
    }
    let rules = read("ten thousand rules", rules, VALID);
    assert!(rules.is_ok(), "{}", rules.unwrap_err());
    let mut list = "rules: []\nlists:\n  office:\n".to_owned();
    for n in 0..190_000 {
        writeln!(list, "    - {}.{}.{}.0/24", 1 + n / 65_536, n / 256 % 256, n % 256).unwrap();
    }
    let rules = read("a list of addresses", list, VALID);
    assert!(rules.is_ok(), "{}", rules.unwrap_err());
}
