//! Regression tests of inputs that `cargo xtask fuzz` has found, minimised.

mod support;

use tollgate_rules::{Diagnostics, Request, RuleLimiter, Rules, Source};

fn diagnostics(text: &str) -> Diagnostics {
    Rules::read([Source::new("fuzzed.yaml", text)]).expect_err(text)
}

#[test]
fn an_error_after_carriage_returns_is_rendered() {
    for text in ["rules:\n  - '\r\r\r\r\r", "rules:\n  - '\r\r\r\r\r\n"] {
        let found = diagnostics(text);
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
        let found = diagnostics(text);
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!found.render(false).contains(control), "{:?}", found.render(false));
        assert!(!found.render(true).contains('\u{9b}'), "{:?}", found.render(true));
    }
}

#[test]
fn the_span_of_an_error_in_a_key_includes_leading_blanks() {
    let found = diagnostics("rules: [{ name: a, per: '  =b', limit: 1/s }]");
    let finding = found.findings().next().unwrap();
    assert_eq!((finding.from, finding.to), (27, 28), "{found}");
}

#[test]
fn explaining_charges_nothing_in_a_domain_written_for_envoy() {
    for requests in [0, 1] {
        let file = format!(
            "{{ domain: auth, key: login, rate_limit: {{ unit: minute, requests: {requests} }} }}"
        );
        let limiter = RuleLimiter::new(file.parse().unwrap());
        for cost in [1, 1, 2] {
            let login = Request::empty().attribute("login", "ann").cost(cost);
            let expected = support::explain(&limiter, &login).allowed;
            assert_eq!(support::explain(&limiter, &login).allowed, expected);
            assert_eq!(limiter.decide_now(&login).allowed, expected, "{cost} of {requests}");
        }
    }
}
