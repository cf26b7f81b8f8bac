//! Checks that every limit parses from its printed text, and that no text panics the parser.

use proptest::prelude::*;
use proptest::sample::select;

use crate::limit::Limit;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![1..2_000u64, (1..5_000u64).prop_map(|n| n * 1_000), 1..(1u64 << 40)]
}

fn span() -> impl Strategy<Value = String> {
    (1..100_000u32, select(vec!["ns", "us", "ms", "s", "min"])).prop_map(|(n, u)| format!("{n}{u}"))
}

fn rate() -> impl Strategy<Value = String> {
    let unit = select(vec!["ns", "us", "ms", "s", "min", "h", "d", "w", "month", "year"]);
    let label = select(vec!["", " tokens", " req-1", " BYTES"]);
    (number(), label, 1..90u32, unit)
        .prop_map(|(n, label, count, unit)| format!("{n}{label}/{count}{unit}"))
}

fn option() -> impl Strategy<Value = String> {
    let zone = select(vec!["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]);
    let flag = select(vec![
        "leaky",
        "gcra",
        "fixed",
        "calendar",
        "sliding",
        "log",
        "first_hit",
        "count_denied",
        "interval",
        "pay_later",
        "token_bucket",
        "vegas",
        "gradient2",
    ]);
    let numbered = select(vec!["burst", "initial", "free", "slots", "anchor"]);
    let timed = select(vec!["warmup", "min_gap", "lease"]);
    prop_oneof![
        4 => flag.prop_map(str::to_owned),
        3 => (numbered, number()).prop_map(|(keyword, n)| format!("{keyword} {n}")),
        2 => (timed, span()).prop_map(|(keyword, span)| format!("{keyword} {span}")),
        1 => zone.prop_map(|zone| format!("zone {zone}")),
    ]
}

pub(super) fn text() -> impl Strategy<Value = String> {
    let calendar = (number(), select(vec!["day", "week", "month", "year"]), 1..9u8)
        .prop_map(|(n, unit, day)| format!("{n}/{unit} calendar anchor {day}"));
    let start = prop_oneof![
        6 => rate(),
        1 => calendar,
        1 => number().prop_map(|n| format!("{n} concurrent")),
        1 => (number(), number()).prop_map(|(a, b)| format!("adaptive {a}..{b} concurrent")),
        1 => Just("unlimited".to_owned()),
    ];
    (start, prop::collection::vec(option(), 0..3)).prop_map(|(start, options)| {
        options.iter().fold(start, |text, option| format!("{text} {option}"))
    })
}

/// Generates texts similar to limits, so that the parser gets past the first character.
fn mangled() -> impl Strategy<Value = String> {
    let insert = prop_oneof![any::<char>(), select(vec!['/', '.', '-', ' ', '_', 'm', 'é', '日'])];
    (text(), any::<prop::sample::Index>(), insert, any::<bool>()).prop_map(|(text, at, c, drop)| {
        let at = at.index(text.len() + 1);
        let (head, tail) = text.split_at(at);
        let tail = if drop { tail.get(1..).unwrap_or("") } else { tail };
        format!("{head}{c}{tail}")
    })
}

/// Asserts that an error lies within the text and can be printed.
fn assert_error_is_valid(text: &str) {
    let Err(error) = text.parse::<Limit>() else { return };
    assert!(error.input.get(error.at..error.at + error.len).is_some(), "{error:?}");
    assert!(error.column() <= error.input.chars().count() + 1);
    assert!(!error.message.is_empty());
    assert_eq!(error.to_string().contains('^'), !error.input.trim().is_empty(), "{error:?}");
    assert!(error.to_string().lines().count() <= 4, "{error}");
}

proptest! {
    #[test]
    fn a_limit_parses_from_its_printed_text(text in text()) {
        if let Ok(limit) = text.parse::<Limit>() {
            let printed = limit.to_string();
            let again: Limit = printed.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            prop_assert_eq!(&again, &limit);
            prop_assert_eq!(again.to_string(), printed);
            let brief: Limit = limit.summary().to_string().parse().unwrap_or_else(|e| panic!("{e}"));
            prop_assert_eq!(brief.summary(), limit.summary());
        }
        assert_error_is_valid(&text);
    }

    #[test]
    fn mangled_limits_are_valid_or_have_an_error(text in mangled()) {
        assert_error_is_valid(&text);
    }

    #[test]
    fn any_text_is_valid_or_has_an_error(text in ".{0,300}") {
        assert_error_is_valid(&text);
    }
}

#[test]
fn every_substring_of_a_limit_parses_without_panic() {
    let text = "5M tökens/10 min burst 1_000 zone Europe/Berlin warmup 3.5s lease µs";
    for (start, _) in text.char_indices() {
        for (end, _) in text.char_indices().filter(|(end, _)| *end >= start) {
            assert_error_is_valid(&text[start..end]);
        }
    }
}
