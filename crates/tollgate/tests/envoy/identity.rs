//! Whose counter it is: nobody can pose as another, and an edit forgets nobody.

use proptest::prelude::*;
use tollgate::rules::envoy::{Descriptor, Domains, RateLimitRequest};
use tollgate::{Bucket, Key};

use super::service::{read, serve};

/// The counter behind the only check of a plan.
fn counter(domains: &Domains, domain: &str, entries: &[(&str, &str)]) -> Option<(Bucket, Vec<u8>)> {
    let descriptors = [Descriptor::new(entries)];
    let plan = domains.plan(&RateLimitRequest::new(domain, &descriptors));
    let call = plan.calls().next()?;
    let check = &call.as_call().checks[0];
    let Key::Bytes(bytes) = check.key else { panic!("a key of bytes") };
    Some((check.bucket, bytes.to_vec()))
}

const JOINED: &str = "
domain: d
descriptors:
  - { key: a, value: b, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: foo, value: '*', rate_limit: { unit: day, requests_per_unit: 5 } }
";

#[test]
fn entries_that_match_as_one_text_are_counted_apart() {
    let service = serve(JOINED);
    assert_eq!(service.hit(&[("a", "b")]).limit_remaining, 4);
    // Found by the same descriptor of the file, but not the same client.
    assert_eq!(service.hit(&[("a_b", "")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("a_b", "x")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("foo", "bar_x")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("foo_bar", "x")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("a", "b")]).limit_remaining, 3);
}

#[test]
fn the_same_entries_in_two_domains_are_two_counters() {
    let other = JOINED.replace("domain: d", "domain: other");
    let domains = read(&[JOINED, &other]).unwrap();
    let entries = [("a", "b")];
    assert_ne!(counter(&domains, "d", &entries), counter(&domains, "other", &entries));
}

#[test]
fn a_reload_that_edits_a_limit_keeps_its_counters() {
    let file = |requests: u32, unit: &str| {
        format!(
            "
domain: d
descriptors:
  - {{ key: new, rate_limit: {{ unit: day, requests_per_unit: 1 }} }}
  - {{ key: k, rate_limit: {{ unit: {unit}, requests_per_unit: {requests} }} }}
"
        )
    };
    let mut service = serve(&file(10, "hour"));
    for _ in 0..7 {
        service.hit(&[("k", "ann")]);
    }
    service.reload(&file(20, "hour"));
    assert_eq!(service.hit(&[("k", "ann")]).limit_remaining, 12);
    service.reload(&file(5, "hour"));
    assert_eq!(service.hit(&[("k", "ann")]).limit_remaining, 0);
    service.reload(&file(5, "day")); // another window, as in the original
    assert_eq!(service.hit(&[("k", "ann")]).limit_remaining, 4);
}

#[test]
fn a_reload_that_names_another_algorithm_starts_a_counter_of_its_kind() {
    let file = |algorithm: &str| {
        format!(
            "
domain: d
descriptors:
  - {{ key: k, rate_limit: {{ unit: hour, requests_per_unit: 10, algorithm: {algorithm} }} }}
"
        )
    };
    let mut service = serve(&file("fixed_window"));
    service.hit(&[("k", "ann")]);
    for algorithm in ["sliding_window", "token_bucket", "sliding_log"] {
        service.reload(&file(algorithm));
        assert_eq!(service.hit(&[("k", "ann")]).limit_remaining, 9, "{algorithm}");
    }
    service.reload(&file("fixed_window"));
    assert_eq!(service.hit(&[("k", "ann")]).limit_remaining, 8);
}

/// Counters in a shared store outlive this build.
#[test]
fn counters_have_the_same_name_for_ever() {
    let domains = read(&[JOINED]).unwrap();
    let (bucket, key) = counter(&domains, "d", &[("foo", "x|y")]).unwrap();
    assert_eq!(key, b"foo|x%7Cy");
    assert_eq!(bucket.number(), 17_948_369_076_287_707_030);
}

proptest! {
    #[test]
    fn different_entries_are_different_counters(
        left in prop::collection::vec(("[a_|%]{1,3}", "[a_|%*]{0,3}"), 1..4),
        right in prop::collection::vec(("[a_|%]{1,3}", "[a_|%*]{0,3}"), 1..4),
    ) {
        let any = "key: '*', rate_limit: { unit: day, requests_per_unit: 5 }";
        let two = format!("{{ {any}, descriptors: [{{ {any} }}] }}");
        let file = format!("{{ domain: d, descriptors: [{{ {any}, descriptors: [{two}] }}] }}");
        let domains = read(&[&file]).unwrap();
        let of = |entries: &[(String, String)]| {
            let entries: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            counter(&domains, "d", &entries).unwrap()
        };
        prop_assert_eq!(left == right, of(&left) == of(&right));
    }
}
