//! What `cargo xtask fuzz` found once, made short.
#![cfg(feature = "rules")]

use tollgate::rules::{Diagnostics, Rules, Source};
use tollgate::{Limiter, Request};

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
    for text in [
        "rules\u{9b}2J: []",
        "rules: [{ name: \"\u{9b}31m\", limit: 1/s }]",
        "\u{1b}[2J: 1",
        "rules: \"\\e[2J\"",
    ] {
        let found = wrong(text);
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!found.render(false).contains(control), "{:?}", found.render(false));
        assert!(!found.render(true).contains('\u{9b}'), "{:?}", found.render(true));
    }
}

#[test]
fn a_finding_in_a_key_counts_the_blanks_before_it() {
    let found = wrong("rules: [{ name: a, per: '  =b', limit: 1/s }]");
    let finding = found.findings().next().unwrap();
    assert_eq!((finding.from, finding.to), (27, 28), "{found}");
}

#[test]
fn explaining_charges_nothing_in_a_domain_written_for_envoy() {
    for requests in [0, 1] {
        let file = format!(
            "{{ domain: auth, key: login, rate_limit: {{ unit: minute, requests: {requests} }} }}"
        );
        let limiter = Limiter::from_rules(file.parse().unwrap());
        for cost in [1, 1, 2] {
            let login = Request::empty().attribute("login", "ann").cost(cost);
            let foretold = limiter.explain(&login).allowed;
            assert_eq!(limiter.explain(&login).allowed, foretold);
            assert_eq!(limiter.decide(&login).allowed, foretold, "{cost} of {requests}");
        }
    }
}
