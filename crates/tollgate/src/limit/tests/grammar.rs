//! The meaning of each text, and its canonical spelling.

use std::time::Duration;

use tollgate_core::{Algorithm, Span, Time};

use crate::limit::{AlgorithmName, InvalidLimit, Limit, LimitAlgorithm};

fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn canonical_texts_print_as_they_are() {
    for text in [
        "10/s",
        "10/s burst 20",
        "500/h sliding",
        "200k tokens/min",
        "5M tokens/day",
        "100 concurrent",
        "100 concurrent lease 10s",
        "adaptive 20..500 concurrent",
        "adaptive 20..500 concurrent gradient2",
        "adaptive 20..500 concurrent aimd lease 5s",
        "unlimited",
        "1k/month calendar",
        "10/s warmup 3s",
        "5/10s",
        "60/min interval",
        "20/s leaky",
        "20/s leaky free 5 burst 50",
        "10/s gcra burst 20",
        "1500/h fixed",
        "100/h fixed first_hit",
        "100/h fixed count_denied",
        "1k/week calendar zone Europe/Berlin anchor 7",
        "1k/30d",
        "1k/2w",
        "1k/year calendar count_denied",
        "500/h sliding slots 60",
        "500/h log",
        "500/h log min_gap 100ms count_denied",
        "10/s burst 20 initial 5 pay_later",
        "1/7ns",
        "1/3us",
        "1/250ms",
    ] {
        assert_eq!(limit(text).to_string(), text);
    }
}

#[test]
fn other_spellings_print_canonically() {
    for (text, canonical) in [
        ("  10/s  ", "10/s"),
        ("10 / s", "10/s"),
        ("10 /s", "10/s"),
        ("10/ s", "10/s"),
        ("10/S", "10/s"),
        ("10/1s", "10/s"),
        ("5/10 s", "5/10s"),
        ("1_000/h", "1k/h"),
        ("1000/h", "1k/h"),
        ("5000000/h", "5M/h"),
        ("10K/sec", "10k/s"),
        ("10/second", "10/s"),
        ("10/3 seconds", "10/3s"),
        ("10/minute", "10/min"),
        ("10/mins", "10/min"),
        ("10/hours", "10/h"),
        ("10/d", "10/day"),
        ("10/7days", "10/7d"),
        ("10/w", "10/week"),
        ("10/weeks", "10/week"),
        ("10/months", "10/month"),
        ("10/y", "10/year"),
        ("10/µs", "10/us"),
        ("10/s BURST 20", "10/s burst 20"),
        ("10/s burst 10", "10/s"),
        ("10/s token_bucket", "10/s"),
        ("10/s leaky_bucket free 1", "10/s leaky"),
        ("10/s warm-up 60s", "10/s warmup 1min"),
        ("10/s warmup 3 s", "10/s warmup 3s"),
        ("10/h slots 60", "10/h sliding slots 60"),
        ("10/h slots 60 sliding_window", "10/h sliding slots 60"),
        ("10/h min_gap 1s", "10/h log min_gap 1s"),
        ("10/h log min_gap 0s", "10/h log"),
        ("10/h first-hit", "10/h fixed first_hit"),
        ("10/day fixed calendar", "10/day calendar"),
        ("10/month anchor 15", "10/month calendar anchor 15"),
        ("10/month calendar anchor 1", "10/month calendar"),
        ("10/month timezone europe/berlin", "10/month calendar zone Europe/Berlin"),
        ("10/month calendar zone utc", "10/month calendar zone UTC"),
        ("100 CONCURRENT lease 1min", "100 concurrent"),
        ("Adaptive 20 .. 1_000 concurrent", "adaptive 20..1k concurrent"),
        ("Unlimited", "unlimited"),
        ("10 s/s", "10 s/s"),
    ] {
        assert_eq!(limit(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn constructors_build_the_limits_of_the_texts() {
    let second = Duration::from_secs(1);
    let built = || -> Result<Vec<(Limit, &'static str)>, InvalidLimit> {
        Ok(vec![
            (Limit::per_second(10)?.burst(20)?.initial(5)?, "10/s burst 20 initial 5"),
            (Limit::new(5, 10 * second)?, "5/10s"),
            (Limit::new(5, 60 * second)?, "5/min"),
            (Limit::per_minute(60)?.interval()?, "60/min interval"),
            (Limit::per_minute(60)?.pay_later()?, "60/min pay_later"),
            (Limit::per_hour(9)?.sliding()?, "9/h sliding"),
            (Limit::per_hour(9)?.sliding()?.slots(60)?, "9/h sliding slots 60"),
            (Limit::per_hour(9)?.log()?.min_gap(second)?, "9/h log min_gap 1s"),
            (Limit::per_hour(9)?.log()?.count_denied()?, "9/h log count_denied"),
            (Limit::per_day(9)?.fixed()?, "9/day fixed"),
            (Limit::per_day(9)?.fixed()?.first_hit()?, "9/day first_hit"),
            (
                Limit::per_week(9)?.calendar("UTC")?.anchor_day(7)?,
                "9/week calendar zone UTC anchor 7",
            ),
            (Limit::per_year(9)?.fixed()?.calendar("UTC")?, "9/year calendar zone UTC"),
            (Limit::per_second(9)?.leaky(1)?, "9/s leaky"),
            (Limit::per_second(9)?.leaky(3)?.leaky(1)?, "9/s leaky"),
            (Limit::per_second(9)?.leaky(3)?.burst(20)?, "9/s leaky free 3 burst 20"),
            (Limit::per_second(9)?.burst(20)?.burst(9)?, "9/s"),
            (Limit::per_second(9)?.gcra()?, "9/s gcra"),
            (Limit::per_second(9)?.warm_up(3 * second)?, "9/s warmup 3s"),
            (Limit::concurrent(9)?.lease(second)?, "9 concurrent lease 1s"),
            (Limit::adaptive(2, 9)?, "adaptive 2..9 concurrent"),
            (Limit::unlimited(), "unlimited"),
        ])
    };
    for (built, text) in built().expect("every one is valid") {
        assert_eq!(built, limit(text), "{text}");
    }
}

#[test]
fn constructors_return_descriptive_errors() {
    let error = |built: Result<Limit, InvalidLimit>| built.unwrap_err().to_string();
    let hourly = || Limit::per_hour(10).expect("valid");
    assert_eq!(
        error(hourly().sliding().and_then(|limit| limit.burst(20))),
        r#""burst" goes with "token_bucket", "leaky", "gcra"; not with "sliding""#
    );
    assert_eq!(error(hourly().initial(11)), "11 tokens at the start do not fit a burst of 10");
    assert_eq!(
        error(Limit::new(1, Duration::new(10, 1))),
        "a period of 10.000000001s is too fine for its length: round it"
    );
    assert_eq!(error(Limit::new(1, Duration::ZERO)), "a period of 0 has no rate: use at least 1ns");
    assert_eq!(
        error(hourly().calendar("UTC")),
        "a calendar has no period of \"h\": use one day, week, month or year"
    );
    assert!(error(hourly().label("per")).starts_with("\"per\" is no label"));
    assert_eq!(
        error(Limit::unlimited().label("tokens")),
        r#""label" does not go with "unlimited""#
    );
    assert_eq!(error(hourly().slots(1)), "slots 1: use between 2 and 4096");
}

#[test]
fn limits_have_an_algorithm_a_capacity_and_a_fill_time() {
    let (hour, day) = (Span::from_secs(3_600), Span::from_secs(86_400));
    for (text, algorithm, capacity, fill_time) in [
        ("10/s burst 20", "Meter", 20, Span::from_secs(2)),
        ("60/min burst 90 interval", "Meter", 90, Span::from_secs(120)),
        ("10/h fixed", "FixedWindow", 10, hour),
        ("10/day calendar", "FixedWindow", 10, day + hour.times(3)),
        ("10/h sliding", "SlidingWindow", 10, hour.times(2)),
        ("10/h sliding slots 60", "SlidingSlots", 10, Span::from_secs(3_660)),
        ("10/h log", "SlidingLog", 10, hour),
        ("10/s warmup 3s", "WarmUp", 10, Span::from_millis(5_500)),
        ("10 concurrent", "Concurrent", 10, Span::from_secs(60)),
        ("adaptive 2..9 concurrent lease 5s", "Adaptive", 9, Span::from_secs(5)),
        ("unlimited", "Unlimited", u64::MAX, Span::ZERO),
    ] {
        let limit = limit(text);
        assert!(format!("{:?}", limit.algorithm()).starts_with(algorithm), "{text}");
        assert_eq!((limit.capacity(), limit.fill_time()), (capacity, fill_time), "{text}");
    }
}

#[test]
fn a_summary_is_the_limit_without_its_details() {
    for (text, brief, algorithm) in [
        ("200k tokens/min burst 300k", "200k/min burst 300k", AlgorithmName::TokenBucket),
        ("9/s leaky free 3 burst 20", "9/s leaky burst 20", AlgorithmName::LeakyBucket),
        ("9/s gcra", "9/s gcra", AlgorithmName::Gcra),
        ("9/day first_hit", "9/day fixed", AlgorithmName::FixedWindow),
        ("9/day zone Europe/Berlin", "9/day calendar", AlgorithmName::FixedWindow),
        ("9/h slots 60", "9/h sliding", AlgorithmName::SlidingWindow),
        ("9/h log", "9/h log", AlgorithmName::SlidingLog),
        ("9/s warmup 3s", "9/s warmup 3s", AlgorithmName::WarmUp),
        ("9 concurrent lease 5s", "9 concurrent", AlgorithmName::Concurrent),
        ("adaptive 2..9 concurrent", "adaptive 2..9 concurrent", AlgorithmName::Adaptive),
        ("unlimited", "unlimited", AlgorithmName::Unlimited),
    ] {
        let summary = limit(text).summary();
        assert_eq!((summary.to_string().as_str(), summary.algorithm), (brief, algorithm));
        assert_eq!(limit(brief).summary().algorithm, algorithm);
    }
}

#[test]
fn a_leaky_bucket_delays_all_but_the_free_requests() {
    let wait = |text: &str, cost| {
        let limit = limit(text);
        let LimitAlgorithm::Meter(meter) = limit.algorithm() else { panic!("{text} is no meter") };
        let mut state = meter.fresh(Time::EPOCH);
        meter.decide(&mut state, Time::EPOCH, cost).wait
    };
    assert_eq!(wait("20/s leaky burst 50", 1), Span::ZERO);
    assert_eq!(wait("20/s leaky burst 50", 3), Span::from_millis(100));
    assert_eq!(wait("20/s leaky free 5 burst 50", 5), Span::ZERO);
    assert_eq!(wait("20/s burst 50", 50), Span::ZERO);
}
