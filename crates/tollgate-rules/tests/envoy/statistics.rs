//! The hits of descriptors, as the statistics of the original count them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tollgate::testing::ManualClock;
use tollgate::{MemoryStore, Time};
use tollgate_rules::envoy::{self, Descriptor, HitCounts, LimitOverride, RateLimitRequest, Unit};
use tollgate_rules::{Request, RuleLimiter};

use super::service::{NOW, with_hits};

/// A limiter that adds up the hits of descriptors by name.
struct CountedService {
    limiter: RuleLimiter,
    hits: Arc<Mutex<BTreeMap<String, HitCounts>>>,
}

fn serve(file: &str) -> CountedService {
    let hits: Arc<Mutex<BTreeMap<String, HitCounts>>> = Arc::default();
    let counted = hits.clone();
    let clock = ManualClock::at(Time::from_nanos(NOW));
    let builder = RuleLimiter::builder().clock(&clock).store(MemoryStore::new().clock(&clock));
    let limiter = builder.on_descriptor_hits(move |found| {
        let name = found.name_by_value.unwrap_or(found.name).to_string();
        let mut counted = counted.lock().unwrap();
        let sum = counted.entry(name).or_default();
        let HitCounts { total, over, near, within, shadow, .. } = found.counts;
        sum.total += total;
        sum.over += over;
        sum.near += near;
        sum.within += within;
        sum.shadow += shadow;
    });
    CountedService { limiter: limiter.build(file.parse().unwrap()), hits }
}

impl CountedService {
    fn decide(&self, descriptors: &[Descriptor<'_>]) {
        let request = RateLimitRequest::new("d", descriptors);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let decided = std::pin::pin!(envoy::decide(&self.limiter, &request));
        assert!(decided.poll(&mut context).is_ready());
    }

    /// Returns total, over, near, within and shadow.
    fn hits(&self, name: &str) -> [u64; 5] {
        let hits = self.hits.lock().unwrap().get(name).copied().unwrap_or_default();
        [hits.total, hits.over, hits.near, hits.within, hits.shadow]
    }

    fn names(&self) -> Vec<String> {
        self.hits.lock().unwrap().keys().cloned().collect()
    }
}

const FILE: &str = "
domain: d
descriptors:
  - { key: ten, rate_limit: { unit: minute, requests_per_unit: 10 } }
  - { key: shadow, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 2 } }
  - { key: zero, rate_limit: { unit: minute, requests_per_unit: 0 } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: bucket, rate_limit: { unit: minute, requests_per_unit: 10, burst: 5 } }
  - key: parent
    descriptors:
      - { key: child, value: c, rate_limit: { unit: hour, requests_per_unit: 10 } }
  - { key: base, rate_limit: { name: base, unit: minute, requests_per_unit: 2 } }
  - { key: big, rate_limit: { unit: minute, requests_per_unit: 4, replaces: [{ name: base }] } }
";
const TEN: &[(&str, &str)] = &[("ten", "x")];

#[test]
fn hits_are_near_the_limit_from_four_fifths_on_and_over_it_beyond() {
    let service = serve(FILE);
    for _ in 0..12 {
        service.decide(&[Descriptor::new(TEN)]);
    }
    assert_eq!(service.hits("d.ten"), [12, 2, 2, 10, 0]);
}

#[test]
fn hits_are_counted_and_not_calls() {
    let service = serve(FILE);
    service.decide(&[with_hits(TEN, 7)]);
    assert_eq!(service.hits("d.ten"), [7, 0, 0, 7, 0]);
    // Three more fit, of which two are near the limit; two are over it.
    service.decide(&[with_hits(TEN, 5)]);
    assert_eq!(service.hits("d.ten"), [12, 2, 2, 7, 0]);
    // The window is exceeded: all of them are over.
    service.decide(&[with_hits(TEN, 4)]);
    assert_eq!(service.hits("d.ten"), [16, 6, 2, 7, 0]);
    // A check without hits and a refund change nothing.
    service.decide(&[with_hits(TEN, 0)]);
    service.decide(&[Descriptor { negative: true, ..with_hits(TEN, 3) }]);
    assert_eq!(service.hits("d.ten"), [16, 6, 2, 7, 0]);
}

#[test]
fn the_descriptors_of_a_request_are_counted_each_by_itself() {
    let service = serve(FILE);
    let child = with_hits(&[("parent", "p"), ("child", "c")], 9);
    service.decide(&[with_hits(TEN, 11), child, with_hits(&[("ten", "y")], 12)]);
    assert_eq!(service.hits("d.ten"), [23, 3, 4, 0, 0]);
    assert_eq!(service.hits("d.parent.child_c"), [9, 0, 1, 9, 0]);
}

#[test]
fn a_limit_in_shadow_mode_counts_what_it_would_refuse() {
    let service = serve(FILE);
    for _ in 0..3 {
        service.decide(&[Descriptor::new(&[("shadow", "x")])]);
    }
    assert_eq!(service.hits("d.shadow"), [3, 1, 1, 2, 1]);
    service.decide(&[with_hits(&[("shadow", "y")], 5)]);
    assert_eq!(service.hits("d.shadow"), [8, 4, 2, 2, 4]);
}

#[test]
fn a_limit_of_zero_has_only_hits_over_it() {
    let service = serve(FILE);
    service.decide(&[with_hits(&[("zero", "x")], 3)]);
    assert_eq!(service.hits("d.zero"), [3, 3, 0, 0, 0]);
}

#[test]
fn unlimited_replaced_and_unknown_descriptors_have_no_statistics() {
    let service = serve(FILE);
    let [base, big] = [&[("base", "x")], &[("big", "x")]].map(|entries| Descriptor::new(entries));
    service.decide(&[base, big, Descriptor::new(&[("free", "x")]), Descriptor::new(&[("x", "y")])]);
    assert_eq!(service.names(), ["d.big"]);
}

#[test]
fn a_token_bucket_counts_refused_requests_as_a_whole() {
    let service = serve(FILE);
    service.decide(&[with_hits(&[("bucket", "x")], 4)]);
    service.decide(&[with_hits(&[("bucket", "x")], 3)]); // costs nothing
    service.decide(&[with_hits(&[("bucket", "x")], 1)]);
    assert_eq!(service.hits("d.bucket"), [8, 3, 1, 5, 0]);
}

#[test]
fn limits_of_requests_share_one_name_whatever_their_entries() {
    let service = serve(FILE);
    let limit = Some(LimitOverride { requests_per_unit: 1, unit: Unit::Minute });
    for value in ["a", "b"] {
        service.decide(&[Descriptor { limit, ..with_hits(&[("any", value)], 2) }]);
    }
    assert_eq!(service.names(), ["d.request_limit"]);
    assert_eq!(service.hits("d.request_limit"), [4, 2, 2, 0, 0]);
}

#[test]
fn requests_of_other_doors_are_counted_unless_they_are_dry_runs() {
    let service = serve(FILE);
    let request = Request::empty().attribute("ten", "x").cost(3);
    service.limiter.decide_now(&request);
    service.limiter.decide_now(&request.clone().dry_run());
    assert_eq!(service.hits("d.ten"), [3, 0, 0, 3, 0]);
}

#[test]
fn statistics_are_by_value_only_where_the_file_requests_it() {
    let service = serve(
        "
domain: d
descriptors:
  - { key: unspec, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - key: route
    value_to_metric: true
    descriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 1 } }]
",
    );
    service.decide(&[Descriptor::new(&[("unspec", "v")])]);
    service.decide(&[
        with_hits(&[("unspec", "v")], 2),
        with_hits(&[("route", "r"), ("user", "u")], 1),
    ]);
    assert_eq!(service.names(), ["d.route_r.user", "d.unspec_v"]);
    assert_eq!(service.hits("d.unspec_v"), [3, 2, 1, 1, 0]);
}
