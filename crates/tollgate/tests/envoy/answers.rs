//! Rows 4, 10 to 13, 17 and 18: what the answer says.

use std::time::Duration;

use tollgate::rules::envoy::{Code, Descriptor, Metadata, RateLimitRequest, Unit, near_limit};

use super::service::{costs, serve};

/// A limit for each way it can be.
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
fn row_04_what_nothing_matches_passes() {
    let service = serve(FILE);
    let stranger = Descriptor::new(&[("stranger", "x")]);
    let answer = service.ask_all(&[stranger]);
    let elsewhere = service.decide(&RateLimitRequest::new("elsewhere", &[TWO]));
    for answer in [answer, elsewhere] {
        let status = &answer.statuses[0];
        assert_eq!((answer.overall, status.code), (Code::Ok, Code::Ok));
        assert_eq!((&status.current_limit, status.limit_remaining), (&None, 0));
        assert_eq!((status.duration_until_reset, answer.headers), (None, None));
    }
    assert!(service.store.is_empty());
}

#[test]
fn a_status_shows_its_limit_and_when_its_window_ends() {
    let service = serve(FILE);
    let status = service.ask(TWO);
    let limit = status.current_limit.unwrap();
    assert_eq!((limit.name.as_deref(), limit.requests_per_unit), (Some("pair"), 2));
    assert_eq!((limit.unit, limit.unit_multiplier), (Unit::Minute, 1));
    assert_eq!(status.duration_until_reset, Some(Duration::from_secs(53)));
    assert_eq!(status.retry_after, None);
    let over = service.ask(costs(&[("two", "x")], 2));
    assert_eq!(over.retry_after, Some(Duration::from_millis(52_500)));
    // A look at what nobody has touched knows the window as well.
    let look = service.ask(costs(&[("two", "new")], 0));
    assert_eq!(look.duration_until_reset, Some(Duration::from_secs(53)));
}

#[test]
fn row_10_any_limit_that_is_over_refuses() {
    let service = serve(FILE);
    for (overall, codes) in [
        (Code::Ok, [Code::Ok, Code::Ok]),
        (Code::Ok, [Code::Ok, Code::Ok]),
        (Code::OverLimit, [Code::Ok, Code::OverLimit]),
    ] {
        let answer = service.ask_all(&[NINE, TWO]);
        assert_eq!(answer.overall, overall);
        assert_eq!([answer.statuses[0].code, answer.statuses[1].code], codes);
    }
}

#[test]
fn row_10_quotas_refuse_once_all_of_them_are_over() {
    let service = serve(FILE);
    let codes = || {
        let answer = service.ask_all(&[GOLD, SILVER, NINE]);
        (answer.overall, answer.statuses[0].code, answer.statuses[1].code)
    };
    assert_eq!(codes(), (Code::Ok, Code::Ok, Code::Ok));
    assert_eq!(codes(), (Code::Ok, Code::OverLimit, Code::Ok)); // silver is left
    assert_eq!(codes(), (Code::OverLimit, Code::OverLimit, Code::OverLimit));
    // One alone is all of them; one that is only watched always passes.
    assert_eq!(service.ask_all(&[GOLD, NINE]).overall, Code::OverLimit);
    service.ask(DARK);
    assert_eq!(service.ask_all(&[GOLD, DARK]).overall, Code::Ok);
    // A limit that is over refuses whatever quotas are left.
    service.ask(costs(&[("two", "x")], 3));
    let fresh = Descriptor::new(&[("silver", "y")]);
    assert_eq!(service.ask_all(&[fresh, TWO]).overall, Code::OverLimit);
}

#[test]
fn row_11_what_is_watched_passes_but_shows_its_limit() {
    let service = serve(FILE);
    service.ask(SHADOW);
    let answer = service.ask_all(&[SHADOW]);
    let status = &answer.statuses[0];
    assert_eq!((answer.overall, status.code, status.limit_remaining), (Code::Ok, Code::Ok, 0));
    assert_eq!(status.current_limit.as_ref().unwrap().requests_per_unit, 1);
}

#[test]
fn row_12_headers_tell_of_the_limit_with_the_least_left() {
    let service = serve(FILE);
    let headers = service.ask_all(&[NINE, FREE, SEVEN]).headers.unwrap();
    let until_midnight = 12 * 3_600 - 7;
    assert_eq!((headers.limit, headers.remaining, headers.reset), (7, 6, until_midnight));
    assert_eq!(headers.pairs()[2], ("RateLimit-Reset", until_midnight));
    // Of equals the first: nine has 6 left after two more.
    let answer = service.ask_all(&[costs(&[("nine", "x")], 2), costs(&[("seven", "x")], 0)]);
    assert_eq!(answer.headers.unwrap().limit, 9);
    assert_eq!(service.ask_all(&[FREE]).headers, None);
}

#[test]
fn row_12_if_refused_headers_tell_of_the_last_limit_that_was_over() {
    let service = serve(FILE);
    service.ask(costs(&[("two", "x")], 2));
    service.ask(costs(&[("seven", "x")], 7));
    service.ask(costs(&[("gold", "x")], 2));
    service.ask(costs(&[("shadow", "x")], 2));
    let shown = |descriptors: &[Descriptor<'_>]| {
        let headers = service.ask_all(descriptors).headers.unwrap();
        (headers.limit, headers.remaining)
    };
    assert_eq!(shown(&[TWO, SEVEN, NINE]), (7, 0));
    assert_eq!(shown(&[SEVEN, NINE, TWO]), (2, 0));
    assert_eq!(shown(&[SEVEN, SHADOW]), (7, 0)); // what is only watched does not take over
    assert_eq!(shown(&[SEVEN, GOLD]), (7, 0)); // nor does a quota
    assert_eq!(shown(&[GOLD, SHADOW, SEVEN]), (7, 0));
}

#[test]
fn row_13_metadata_of_what_passes_is_merged_and_the_first_wins() {
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
    let answer = service.ask_all(&[free, plain, a, b]);
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
    assert_eq!(answer.metadata.as_deref(), Some(&expected));
    // Now a is over, so only b passes.
    let answer = service.ask_all(&[a, b]);
    assert_eq!(answer.metadata.unwrap().get("from"), Some(&text("b")));
    assert_eq!(service.ask_all(&[plain]).metadata, None);
}

#[test]
fn row_17_over_http_an_answer_is_200_or_429_and_a_bad_request_is_told_apart() {
    let service = serve(FILE);
    assert_eq!(service.ask_all(&[TWO]).overall.http_status(), 200);
    service.ask(TWO);
    assert_eq!(service.ask_all(&[TWO]).overall.http_status(), 429);
    assert_eq!(RateLimitRequest::new("d", &[TWO]).fault(), None);
    assert!(RateLimitRequest::new("", &[TWO]).fault().unwrap().contains("domain"));
    assert!(RateLimitRequest::new("d", &[]).fault().unwrap().contains("descriptor"));
    assert!(service.ask_all(&[]).statuses.is_empty()); // and asking anyway does no harm
}

#[test]
fn row_18_near_the_limit_is_above_four_fifths_rounded_down() {
    assert_eq!([0, 1, 2, 5, 7, 9, 10, 99].map(near_limit), [0, 0, 1, 4, 5, 7, 8, 79]);
    let service = serve(FILE);
    let near: Vec<_> = (0..9).map(|_| service.ask(SEVEN).near_limit).collect();
    // The 6th and 7th are near, the 8th and 9th are over.
    assert_eq!(near, [false, false, false, false, false, true, true, false, false]);
}
