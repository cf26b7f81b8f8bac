//! What answers say, in every style there is, and nonsense.

use proptest::prelude::*;
use tollgate::testing::ManualClock;
use tollgate_rules::{Request, RuleLimiter};

use super::*;
use crate::headers::{DecisionSummary, HeaderStyle, write};

const NOW: Duration = Duration::from_secs(1_767_268_800);

fn hint(status: u16, fields: &[(&str, &str)]) -> Option<u64> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    pause(status.try_into().unwrap(), &headers, NOW).map(|pause| pause.as_secs())
}

#[test]
fn refusals_say_when_to_come_back() {
    for status in [429, 503] {
        assert_eq!(hint(status, &[("retry-after", "7")]), Some(7));
        assert_eq!(hint(status, &[("retry-after", " 7 ")]), Some(7));
        let date = ("retry-after", "Thu, 01 Jan 2026 12:00:30 GMT");
        assert_eq!(hint(status, &[date]), Some(30), "by our clock");
        let theirs = ("date", "Thu, 01 Jan 2026 12:00:25 GMT");
        assert_eq!(hint(status, &[date, theirs]), Some(5), "by theirs");
    }
    assert_eq!(hint(429, &[]), Some(1));
    assert_eq!(hint(503, &[]), None);
    assert_eq!(hint(200, &[("retry-after", "7")]), None);
    assert_eq!(hint(301, &[("retry-after", "7")]), None);
    // The exact word counts, not when all of it is back.
    assert_eq!(hint(429, &[("retry-after", "2"), ("ratelimit", "\"a\";r=0;t=60")]), Some(2));
}

#[test]
fn every_draft_says_when_nothing_is_left() {
    for fields in [
        &[("ratelimit", r#""a";r=0;t=9"#)][..],
        &[("ratelimit", r#""a";r=5;t=99, "b";r=0;t=9"#)],
        &[("ratelimit", r#""a";r=0;t=3"#), ("ratelimit", r#""b";r=0;t=9"#)],
        &[("ratelimit", "default;r=0;t=9")],
        &[("ratelimit", r#""a";r=0"#), ("ratelimit-policy", r#""b";q=1;w=1, "a";q=10;w=9"#)],
        &[("ratelimit", "limit=100, remaining=0, reset=9")],
        &[("ratelimit-remaining", "0"), ("ratelimit-reset", "9")],
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9")],
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767268809")],
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767268809000")],
    ] {
        assert_eq!(hint(200, fields), Some(9), "{fields:?}");
    }
    for fields in [
        &[("ratelimit", r#""a";r=1;t=9"#)][..],
        &[("ratelimit", "limit=100, remaining=1, reset=9")],
        &[("ratelimit-remaining", "1"), ("ratelimit-reset", "9")],
        &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1767268799")],
        &[("ratelimit", r#""places";r=0"#), ("ratelimit-policy", r#""places";q=3;qu="requests""#)],
    ] {
        assert_eq!(hint(200, fields), None, "{fields:?}");
    }
}

#[test]
fn calls_of_grpc_are_understood() {
    let details = [grpc::StatusDetail::retry_after(Duration::from_secs(4))].to_vec();
    let status = Status { code: 8, message: String::new(), details }.to_header();
    let details = ("grpc-status-details-bin", &*status);
    assert_eq!(hint(200, &[("grpc-status", "8"), details]), Some(4));
    assert_eq!(hint(200, &[("grpc-status", "14"), details]), Some(4));
    assert_eq!(hint(200, &[("grpc-status", "5"), details]), None);
    assert_eq!(hint(200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "3000")]), Some(3));
    assert_eq!(hint(200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "-1")]), None);
}

#[test]
fn nonsense_is_ignored_and_nothing_overflows() {
    let huge = "9".repeat(40);
    let endless = format!("\"{}\";r=0;t=9", "a".repeat(MAX_FIELD));
    for value in ["-1", "1.5", "soon", "", "1e9", "0x10", "Thu, 99 Xxx 2026 12:00:30 GMT"] {
        assert_eq!(hint(503, &[("retry-after", value)]), None, "{value}");
    }
    assert_eq!(hint(503, &[("retry-after", &huge)]), Some(u64::MAX));
    for value in ["\"a\";r=0;t=-9", "\"a\";r=0;t=\"9\"", "((", "\"a", "r=0", &endless, &huge] {
        assert_eq!(hint(200, &[("ratelimit", value)]), None, "{value}");
    }
    let reset = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &*huge)];
    assert!(hint(200, &reset).is_some());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        name in prop::sample::select(vec!["retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-reset", "date", "grpc-status-details-bin"]),
        value in prop::collection::vec(prop_oneof![0x20..=0x7e_u8, 0x80..=0xff_u8], 0..64),
        status in prop::sample::select(vec![200_u16, 429, 503]),
    ) {
        let mut headers = HeaderMap::new();
        headers.insert("x-ratelimit-remaining", "0".parse().unwrap());
        headers.insert("grpc-status", "8".parse().unwrap());
        headers.insert(name, HeaderValue::from_bytes(&value).unwrap());
        pause(status.try_into().unwrap(), &headers, NOW);
    }

    /// The client understands the headers of the layer: a retry at the given time is never too early.
    #[test]
    fn our_own_headers_are_understood(
        amount in 1_u64..20,
        window in prop::sample::select(vec!["s", "10s", "min", "h"]),
        kind in prop::sample::select(vec!["", " fixed", " sliding", " burst 3"]),
        asked in 1_u64..40,
        style in prop::sample::select(vec![
            HeaderStyle::Draft10, HeaderStyle::Draft8, HeaderStyle::Draft6, HeaderStyle::Legacy,
            HeaderStyle::Envoy03, HeaderStyle::None,
        ]),
    ) {
        let clock = ManualClock::new();
        let rules = format!("rules: [{{ name: a, limit: {amount}/{window}{kind} }}]");
        let limiter = RuleLimiter::builder().clock(&clock).build(rules.parse().unwrap());
        let request = Request::new("GET", "/");
        for _ in 0..asked {
            let wall = Duration::from_nanos(clock.now().as_nanos());
            let decision = limiter.decide_now(&request);
            let mut headers = HeaderMap::new();
            write(style, &DecisionSummary::new(&decision), wall.as_secs(), &mut headers);
            let told = pause(decision.code.try_into().unwrap(), &headers, wall);
            prop_assert!(decision.allowed || told.is_some());
            if let Some(told) = told {
                clock.advance(told);
                prop_assert!(limiter.decide_now(&request).allowed, "told {:?} by {:?}", told, headers);
            }
        }
    }
}
