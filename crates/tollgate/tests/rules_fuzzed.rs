//! What `cargo xtask fuzz` found once, made short.
#![cfg(feature = "rules")]

use tollgate::rules::{Diagnostics, Rules, Source};

fn wrong(text: &str) -> Diagnostics {
    Rules::read([Source::new("fuzzed.yaml", text)]).expect_err(text)
}

#[test]
fn a_place_behind_carriage_returns_can_be_shown() {
    for text in ["rules:\n  - '\r\r\r\r\r", "rules:\n  - '\r\r\r\r\r\n"] {
        let found = wrong(text);
        assert!(found.to_string().contains("fuzzed.yaml:"), "{found}");
    }
}

#[test]
fn no_control_character_of_a_file_reaches_the_terminal() {
    for text in
        ["rules\u{9b}2J: []", "rules: [{ name: \"\u{9b}31m\", limit: 1/s }]", "\u{1b}[2J: 1"]
    {
        let found = wrong(text);
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!found.render(false).contains(control), "{:?}", found.render(false));
        assert!(!found.render(true).contains('\u{9b}'), "{:?}", found.render(true));
    }
}
