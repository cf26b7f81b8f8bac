//! Rows 4, 10 to 13, 17 and 18: the content of responses.

use std::time::Duration;

use tollgate_rules::envoy::{Code, Descriptor, Metadata, RateLimitRequest, Unit, near_limit};

use super::service::{serve, with_hits};

/// One limit of each mode, and limits of several units.
const FILE: &str = "
domain: d
descriptors:
  - { key: two, rate_limit: { name: pair, unit: minute, requests_per_unit: 2 } }
  - { key: nine, rate_limit: { unit: hour, requests_per_unit: 9 } }
  - { key: seven, rate_limit: { unit: day, requests_per_unit: 7 } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: gold, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: silver, quota_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: dark, quota_mode: true, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: free, rate_limit: { unlimited: true } }
";

const TWO: Descriptor<'static> = one(&[("two", "x")]);
const NINE: Descriptor<'static> = one(&[("nine", "x")]);
const SEVEN: Descriptor<'static> = one(&[("seven", "x")]);
const SHADOW: Descriptor<'static> = one(&[("shadow", "x")]);
const GOLD: Descriptor<'static> = one(&[("gold", "x")]);
const SILVER: Descriptor<'static> = one(&[("silver", "x")]);
const DARK: Descriptor<'static> = one(&[("dark", "x")]);
const FREE: Descriptor<'static> = one(&[("free", "x")]);

const fn one(entries: &'static [(&'static str, &'static str)]) -> Descriptor<'static> {
    Descriptor { entries, hits: None, negative: false, limit: None }
}

#[test]
fn row_04_a_descriptor_without_a_limit_passes() {
    let service = serve(FILE);
    let unmatched = Descriptor::new(&[("unmatched", "x")]);
    let response = service.decide_all(&[unmatched]);
    let unknown_domain = service.decide(&RateLimitRequest::new("elsewhere", &[TWO]));
    for response in [response, unknown_domain] {
        let status = &response.statuses[0];
        assert_eq!((response.overall, status.code), (Code::Ok, Code::Ok));
        assert_eq!((&status.current_limit, status.limit_remaining), (&None, 0));
        assert_eq!((status.duration_until_reset, response.headers), (None, None));
    }
    assert!(service.store.is_empty());
}

#[test]
fn a_status_shows_its_limit_and_when_its_window_ends() {
    let service = serve(FILE);
    let status = service.decide_one(TWO);
    let limit = status.current_limit.unwrap();
    assert_eq!((limit.name.as_deref(), limit.requests_per_unit), (Some("pair"), 2));
    assert_eq!((limit.unit, limit.unit_multiplier), (Unit::Minute, 1));
    assert_eq!(status.duration_until_reset, Some(Duration::from_secs(53)));
    assert_eq!(status.retry_after, None);
    let over = service.decide_one(with_hits(&[("two", "x")], 2));
    assert_eq!(over.retry_after, Some(Duration::from_millis(52_500)));
    // A check of cost 0 reports the window of an unused counter, too.
    let unused = service.decide_one(with_hits(&[("two", "new")], 0));
    assert_eq!(unused.duration_until_reset, Some(Duration::from_secs(53)));
}

#[test]
fn row_10_one_exceeded_limit_refuses_the_request() {
    let service = serve(FILE);
    for (overall, codes) in [
        (Code::Ok, [Code::Ok, Code::Ok]),
        (Code::Ok, [Code::Ok, Code::Ok]),
        (Code::OverLimit, [Code::Ok, Code::OverLimit]),
    ] {
        let response = service.decide_all(&[NINE, TWO]);
        assert_eq!(response.overall, overall);
        assert_eq!([response.statuses[0].code, response.statuses[1].code], codes);
    }
}

#[test]
fn row_10_quotas_refuse_when_all_are_exceeded() {
    let service = serve(FILE);
    let codes = || {
        let response = service.decide_all(&[GOLD, SILVER, NINE]);
        (response.overall, response.statuses[0].code, response.statuses[1].code)
    };
    assert_eq!(codes(), (Code::Ok, Code::Ok, Code::Ok));
    assert_eq!(codes(), (Code::Ok, Code::OverLimit, Code::Ok)); // silver is left
    assert_eq!(codes(), (Code::OverLimit, Code::OverLimit, Code::OverLimit));
    // A single quota refuses alone; one in shadow mode always passes.
    assert_eq!(service.decide_all(&[GOLD, NINE]).overall, Code::OverLimit);
    service.decide_one(DARK);
    assert_eq!(service.decide_all(&[GOLD, DARK]).overall, Code::Ok);
    // An exceeded limit refuses even if a quota is left.
    service.decide_one(with_hits(&[("two", "x")], 3));
    let fresh = Descriptor::new(&[("silver", "y")]);
    assert_eq!(service.decide_all(&[fresh, TWO]).overall, Code::OverLimit);
}

#[test]
fn row_11_a_limit_in_shadow_mode_passes_and_is_reported() {
    let service = serve(FILE);
    service.decide_one(SHADOW);
    let response = service.decide_all(&[SHADOW]);
    let status = &response.statuses[0];
    assert_eq!((response.overall, status.code, status.limit_remaining), (Code::Ok, Code::Ok, 0));
    assert_eq!(status.current_limit.as_ref().unwrap().requests_per_unit, 1);
    assert_eq!(status.shadow_denials, ["".into()], "a limit without a name");
    assert!(service.decide_one(NINE).shadow_denials.is_empty());
}

#[test]
fn row_12_headers_describe_the_limit_with_the_least_remaining() {
    let service = serve(FILE);
    let headers = service.decide_all(&[NINE, FREE, SEVEN]).headers.unwrap();
    let until_midnight = 12 * 3_600 - 7;
    assert_eq!((headers.limit, headers.remaining, headers.reset), (7, 6, until_midnight));
    assert_eq!(headers.pairs()[2], ("RateLimit-Reset", until_midnight));
    // Both have 6 remaining after two more of `nine`: the first is reported.
    let response =
        service.decide_all(&[with_hits(&[("nine", "x")], 2), with_hits(&[("seven", "x")], 0)]);
    assert_eq!(response.headers.unwrap().limit, 9);
    assert_eq!(service.decide_all(&[FREE]).headers, None);
}

#[test]
fn row_12_headers_of_a_refusal_describe_the_last_exceeded_limit() {
    let service = serve(FILE);
    service.decide_one(with_hits(&[("two", "x")], 2));
    service.decide_one(with_hits(&[("seven", "x")], 7));
    service.decide_one(with_hits(&[("gold", "x")], 2));
    service.decide_one(with_hits(&[("shadow", "x")], 2));
    let headers = |descriptors: &[Descriptor<'_>]| {
        let headers = service.decide_all(descriptors).headers.unwrap();
        (headers.limit, headers.remaining)
    };
    assert_eq!(headers(&[TWO, SEVEN, NINE]), (7, 0));
    assert_eq!(headers(&[SEVEN, NINE, TWO]), (2, 0));
    assert_eq!(headers(&[SEVEN, SHADOW]), (7, 0)); // a limit in shadow mode is not reported
    assert_eq!(headers(&[SEVEN, GOLD]), (7, 0)); // neither is a quota
    assert_eq!(headers(&[GOLD, SHADOW, SEVEN]), (7, 0));
}

#[test]
fn row_13_metadata_of_passing_descriptors_is_merged_and_the_first_value_wins() {
    let service = serve(
        "
domain: d
descriptors:
  - key: a
    rate_limit: { unit: minute, requests_per_unit: 1 }
    metadata: { from: a, nested: { x: 1, deep: { y: true } }, list: [1, two, null] }
  - key: b
    rate_limit: { unit: minute, requests_per_unit: 9 }
    metadata: { from: b, nested: { x: 2, z: '3', deep: { w: 1.5 } }, more: yes }
  - { key: plain, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: free, rate_limit: { unlimited: true }, metadata: { from: free } }
",
    );
    let [a, b, plain, free] = [&[("a", "x")], &[("b", "x")], &[("plain", "x")], &[("free", "x")]]
        .map(|entries| Descriptor::new(entries));
    let response = service.decide_all(&[free, plain, a, b]);
    let text = |text: &str| Metadata::Text(text.into());
    let map = |fields: &[(&str, Metadata)]| {
        Metadata::Map(
            fields.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
        )
    };
    let expected = map(&[
        ("from", text("a")),
        (
            "nested",
            map(&[
                ("x", Metadata::Number(1.0)),
                ("deep", map(&[("y", Metadata::Flag(true)), ("w", Metadata::Number(1.5))])),
                ("z", text("3")),
            ]),
        ),
        ("list", Metadata::List(vec![Metadata::Number(1.0), text("two"), Metadata::Null])),
        ("more", Metadata::Flag(true)),
    ]);
    assert_eq!(response.metadata.as_deref(), Some(&expected));
    // Now `a` is exceeded, so only `b` passes.
    let response = service.decide_all(&[a, b]);
    assert_eq!(response.metadata.unwrap().get("from"), Some(&text("b")));
    assert_eq!(service.decide_all(&[plain]).metadata, None);
}

#[test]
fn row_17_http_status_is_200_or_429_and_bad_requests_have_a_fault() {
    let service = serve(FILE);
    assert_eq!(service.decide_all(&[TWO]).overall.http_status(), 200);
    service.decide_one(TWO);
    assert_eq!(service.decide_all(&[TWO]).overall.http_status(), 429);
    assert_eq!(RateLimitRequest::new("d", &[TWO]).fault(), None);
    assert!(RateLimitRequest::new("", &[TWO]).fault().unwrap().contains("domain"));
    assert!(RateLimitRequest::new("d", &[]).fault().unwrap().contains("descriptor"));
    assert!(service.decide_all(&[]).statuses.is_empty()); // an empty request is harmless
}

#[test]
fn row_18_the_near_limit_is_four_fifths_rounded_down() {
    assert_eq!([0, 1, 2, 5, 7, 9, 10, 99].map(near_limit), [0, 0, 1, 4, 5, 7, 8, 79]);
    let service = serve(FILE);
    let near: Vec<_> = (0..9).map(|_| service.decide_one(SEVEN).near_limit).collect();
    // Hits 6 and 7 are near the limit, hits 8 and 9 exceed it.
    assert_eq!(near, [false, false, false, false, false, true, true, false, false]);
}
