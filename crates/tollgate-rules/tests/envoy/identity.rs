//! The identity of counters: no client uses the counter of another, and an edit keeps them.

use proptest::prelude::*;
use tollgate::{CounterId, Key};
use tollgate_rules::envoy::{Descriptor, Domains, RateLimitRequest};

use super::service::{read, serve};

/// Returns the id and the key of the only counter of a plan.
fn counter(
    domains: &Domains,
    domain: &str,
    entries: &[(&str, &str)],
) -> Option<(CounterId, Vec<u8>)> {
    let descriptors = [Descriptor::new(entries)];
    let plan = domains.plan(&RateLimitRequest::new(domain, &descriptors));
    let call = plan.calls().next()?;
    let check = &call.as_call().checks[0];
    let Key::Bytes(bytes) = check.key else { panic!("a key of bytes") };
    Some((check.counter, bytes.to_vec()))
}

const JOINED: &str = "
domain: d
descriptors:
  - { key: a, value: b, rate_limit: { unit: day, requests_per_unit: 5 } }
  - { key: foo, value: '*', rate_limit: { unit: day, requests_per_unit: 5 } }
";

#[test]
fn entries_that_join_to_the_same_text_have_their_own_counters() {
    let service = serve(JOINED);
    assert_eq!(service.hit(&[("a", "b")]).limit_remaining, 4);
    // The same descriptor of the file matches these, but each is another client.
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
fn a_reload_with_another_algorithm_starts_new_counters() {
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

/// Pins the identity of counters, since those in a shared store outlive a build.
#[test]
fn the_identity_of_counters_is_stable() {
    let domains = read(&[JOINED]).unwrap();
    let (id, key) = counter(&domains, "d", &[("foo", "x|y")]).unwrap();
    assert_eq!(key, b"foo|x%7Cy");
    assert_eq!(id.number(), 17_948_369_076_287_707_030);
}

proptest! {
    #[test]
    fn different_entries_have_different_counters(
        left in prop::collection::vec(("[a_|%]{1,3}", "[a_|%*]{0,3}"), 1..4),
        right in prop::collection::vec(("[a_|%]{1,3}", "[a_|%*]{0,3}"), 1..4),
    ) {
        let any = "key: '*', rate_limit: { unit: day, requests_per_unit: 5 }";
        let two = format!("{{ {any}, descriptors: [{{ {any} }}] }}");
        let file = format!("{{ domain: d, descriptors: [{{ {any}, descriptors: [{two}] }}] }}");
        let domains = read(&[&file]).unwrap();
        let counter = |entries: &[(String, String)]| {
            let entries: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            counter(&domains, "d", &entries).unwrap()
        };
        prop_assert_eq!(left == right, counter(&left) == counter(&right));
    }
}
