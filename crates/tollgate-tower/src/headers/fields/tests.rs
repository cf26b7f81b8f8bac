//! The header fields of every style.

use super::super::quota_policy::QuotaPolicy;
use super::*;
use tollgate_rules::{Mode, Reason};

fn status(rule: &str, limit: u64, window_s: u64, remaining: u64, reset_s: u64) -> LimitStatus<'_> {
    LimitStatus {
        rule: Some(rule),
        limit,
        window_s: Some(window_s),
        policy: Some(QuotaPolicy { quota: limit, seconds: window_s, is_steady: true }),
        unit: None,
        remaining,
        reset_after_ms: reset_s * 1000 - 1,
        allowed: true,
        enforced: true,
        mode: Mode::Enforce,
    }
}

fn summary<'a>(limits: &[LimitStatus<'a>]) -> DecisionSummary<'a> {
    DecisionSummary {
        allowed: true,
        reason: Reason::WithinLimits,
        code: 200,
        rule: None,
        key: None,
        wait_ms: 0,
        retry_after_ms: None,
        banned: false,
        limits: limits.iter().copied().collect(),
    }
}

fn written(style: HeaderStyle, summary: &DecisionSummary<'_>) -> Vec<String> {
    let mut headers = HeaderMap::new();
    write(style, summary, 1_000_000, &mut headers);
    let mut lines: Vec<_> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines
}

#[test]
fn the_examples_of_the_tenth_draft() {
    let burst = [status("burst", 100, 60, 50, 30), status("daily", 1000, 86_400, 900, 10)];
    assert_eq!(
        written(HeaderStyle::Draft10, &summary(&burst)),
        [
            r#"ratelimit-policy: "burst";q=100;w=60, "daily";q=1000;w=86400"#,
            r#"ratelimit: "burst";r=50;t=30, "daily";r=900;t=10"#,
        ]
    );
    let places = LimitStatus { window_s: None, policy: None, ..status("places", 10, 1, 4, 1) };
    assert_eq!(
        written(HeaderStyle::Draft10, &summary(&[places])),
        [
            r#"ratelimit-policy: "places";q=10;qu="concurrent-requests""#,
            r#"ratelimit: "places";r=4"#,
        ]
    );
}

#[test]
fn a_limit_on_tokens_tells_its_unit() {
    let tokens = LimitStatus { unit: Some("tokens"), ..status("llm", 2000, 60, 1500, 15) };
    assert_eq!(
        written(HeaderStyle::Draft10, &summary(&[tokens])),
        [r#"ratelimit-policy: "llm";q=2000;qu="tokens";w=60"#, r#"ratelimit: "llm";r=1500;t=15"#,]
    );
}

#[test]
fn a_burst_below_a_second_is_told_as_what_a_second_restores() {
    let policy = Some(QuotaPolicy { quota: 1000, seconds: 1, is_steady: true });
    let spent = LimitStatus { policy, reset_after_ms: 1, ..status("r", 1, 1, 0, 1) };
    assert_eq!(
        written(HeaderStyle::Draft10, &summary(&[spent])),
        [r#"ratelimit-policy: "r";q=1000;w=1"#, r#"ratelimit: "r";r=999;t=1"#]
    );
    let full = LimitStatus { policy, reset_after_ms: 0, ..status("r", 1, 1, 1, 1) };
    assert_eq!(full.remaining_until_reset(), 1000);
}

#[test]
fn older_styles_tell_about_the_tightest() {
    let both = [status("login", 5, 60, 3, 12), status("login", 20, 3600, 1, 700)];
    let both = summary(&both);
    assert_eq!(
        written(HeaderStyle::Draft6, &both),
        [
            "ratelimit-limit: 20",
            "ratelimit-policy: 5;w=60, 20;w=3600",
            "ratelimit-remaining: 1",
            "ratelimit-reset: 700",
        ]
    );
    assert_eq!(
        written(HeaderStyle::Legacy, &both),
        ["x-ratelimit-limit: 20", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1000700"]
    );
    assert_eq!(
        written(HeaderStyle::Envoy03, &both),
        [
            r#"x-ratelimit-limit: 20, 5;w=60;name="login", 20;w=3600;name="login-2""#,
            "x-ratelimit-remaining: 1",
            "x-ratelimit-reset: 700",
        ]
    );
    assert!(written(HeaderStyle::None, &both).is_empty());
}

#[test]
fn a_refusal_says_when_to_come_back_in_every_style() {
    let base = summary(&[status("api", 1, 1, 0, 1)]);
    let refused = DecisionSummary { allowed: false, retry_after_ms: Some(1840), ..base };
    for style in [HeaderStyle::Draft10, HeaderStyle::Envoy03, HeaderStyle::None] {
        assert!(written(style, &refused).contains(&"retry-after: 2".to_owned()), "{style:?}");
    }
    let never = DecisionSummary { retry_after_ms: None, ..refused };
    assert!(written(HeaderStyle::None, &never).is_empty());
}

#[test]
fn no_name_breaks_out_of_its_quotes() {
    let odd = "a\"b\\c\r\nSet-Cookie: x\u{1b}[31m\u{e9}";
    let lines = written(HeaderStyle::Draft10, &summary(&[status(odd, 1, 1, 1, 1)]));
    assert_eq!(lines[0], r#"ratelimit-policy: "a\"b\\c%0D%0ASet-Cookie: x%1B[31m%C3%A9";q=1;w=1"#);
}

#[test]
fn rules_in_shadow_and_no_limits_are_not_told() {
    let shadow = LimitStatus { enforced: false, ..status("s", 1, 1, 1, 1) };
    let none = LimitStatus { limit: u64::MAX, ..status("u", 1, 1, 1, 1) };
    assert!(written(HeaderStyle::Draft10, &summary(&[shadow, none])).is_empty());
}
