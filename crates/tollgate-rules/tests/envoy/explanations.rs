//! Explanations of requests to Envoy's files.

use tollgate_rules::envoy::{self, Descriptor, RateLimitRequest};
use tollgate_rules::{Explanation, Request, RuleLimiter};

const FILE: &str = "
domain: d
descriptors:
  - key: foo
    rate_limit: { unit: minute, requests_per_unit: 2 }
    descriptors:
      - { key: bar, value: banned, rate_limit: { name: banned, unit: minute, requests_per_unit: 0 } }
      - { key: baz, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 3 } }
      - { key: bare }
  - { key: account, rate_limit: { unit: minute, requests_per_unit: 4, replaces: [{ name: banned }] } }
  - { key: free, rate_limit: { unlimited: true } }
";

fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("the memory store does not wait"),
    }
}

fn explain(descriptors: &[Descriptor<'_>]) -> Explanation {
    let limiter = RuleLimiter::new(FILE.parse().unwrap());
    let request = RateLimitRequest::new("d", descriptors);
    let first = ready(envoy::explain(&limiter, &request)).unwrap();
    let again = ready(envoy::explain(&limiter, &request)).unwrap();
    let left = |explanation: &Explanation| {
        let limits = explanation.rules.iter().flat_map(|rule| &rule.limits);
        limits.map(|limit| limit.remaining).collect::<Vec<_>>()
    };
    assert_eq!(left(&first), left(&again), "nothing is charged");
    first
}

#[test]
fn the_descriptor_of_the_file_its_key_and_its_limit_are_shown() {
    let found = explain(&[Descriptor::new(&[("foo", "a"), ("baz", "b")])]);
    assert_eq!((found.domain.as_deref(), found.allowed, found.code), (Some("d"), true, 200));
    let rule = &found.rules[0];
    assert_eq!((&*rule.name, &*rule.mode, rule.matches), ("d.foo.baz", "shadow", true));
    assert_eq!(rule.key.as_deref(), Some("foo|a|baz|b"));
    assert_eq!((rule.limits[0].capacity, rule.limits[0].remaining), (3, 2));
    assert!(rule.limits[0].limit.starts_with("3/h"), "{}", rule.limits[0].limit);
}

#[test]
fn a_refusal_names_the_descriptor() {
    let found = explain(&[Descriptor::new(&[("foo", "a"), ("bar", "banned")])]);
    assert_eq!((found.allowed, found.code, found.reason), (false, 429, "over_limit"));
    assert_eq!(found.rule.as_deref(), Some("d.foo.bar_banned"));
    let limit = &found.rules[0].limits[0];
    assert_eq!((limit.allowed, limit.capacity, limit.remaining), (false, 0, 0));
    assert!(limit.limit.starts_with("0/min"), "{}", limit.limit);
}

#[test]
fn a_replaced_limit_says_so() {
    let found = explain(&[
        Descriptor::new(&[("foo", "a"), ("bar", "banned")]),
        Descriptor::new(&[("account", "x")]),
        Descriptor::new(&[("free", "x")]),
    ]);
    assert!(found.allowed);
    let why = found.rules[0].why_not.as_deref().unwrap();
    assert!(why.contains("replaced"), "{why}");
    assert_eq!((found.rules[1].matches, found.rules[2].then), (true, "allow"));
}

#[test]
fn what_the_file_lacks_is_named() {
    for (entries, expected) in [
        (&[("nothing", "x")][..], "no descriptor for nothing=x"),
        (&[("foo", "a"), ("deep", "x")], "no descriptor for deep=x below foo=a"),
        (&[("foo", "a"), ("bare", "x")], "no rate_limit"),
        (&[], "no entries"),
    ] {
        let found = explain(&[Descriptor::new(entries)]);
        let why = found.rules[0].why_not.as_deref().unwrap();
        assert!(why.contains(expected) && found.allowed, "{entries:?}: {why}");
    }
}

#[test]
fn a_generic_request_is_explained_as_one_descriptor() {
    let limiter = RuleLimiter::new(FILE.parse().unwrap());
    let found = ready(limiter.explain(&Request::empty().attribute("foo", "a")));
    assert_eq!((found.domain.as_deref(), &*found.rules[0].name), (Some("d"), "d.foo"));
}
