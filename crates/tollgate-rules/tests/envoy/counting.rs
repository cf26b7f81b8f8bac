//! Rows 5 to 9, 14 and 15: costs, windows and shared counters.

use tollgate_rules::envoy::{Code, Descriptor, LimitOverride, RateLimitRequest, Unit};

use super::service::{serve, with_hits};

const FIVE: &str = "
domain: d
descriptors:
  - { key: k, rate_limit: { unit: minute, requests_per_unit: 5 } }
";
const ANN: &[(&str, &str)] = &[("k", "ann")];
const BOB: &[(&str, &str)] = &[("k", "bob")];

#[test]
fn row_05_unlimited_descriptors_make_no_store_call() {
    let service = serve(
        "
domain: d
descriptors:
  - { key: ldap, rate_limit: { unlimited: true } }
",
    );
    let request = [Descriptor::new(&[("ldap", "x")])];
    let plan = service.domains.plan(&RateLimitRequest::new("d", &request));
    assert_eq!(plan.calls().count(), 0);
    let status = service.hit(&[("ldap", "x")]);
    assert_eq!((status.code, status.limit_remaining), (Code::Ok, u32::MAX));
    assert_eq!((status.current_limit, status.duration_until_reset), (None, None));
    assert!(service.store.is_empty());
}

const REPLACING: &str = "
domain: d
descriptors:
  - { key: base, rate_limit: { name: base, unit: minute, requests_per_unit: 2 } }
  - { key: other, rate_limit: { name: other, unit: minute, requests_per_unit: 2 } }
  - { key: big, rate_limit: { unit: minute, requests_per_unit: 4, replaces: [{ name: base }] } }
  - { key: free, rate_limit: { unlimited: true, replaces: [{ name: base }, { name: other }] } }
  - { key: left, rate_limit: { name: left, unit: minute, requests_per_unit: 2, replaces: [{ name: right }] } }
  - { key: right, rate_limit: { name: right, unit: minute, requests_per_unit: 2, replaces: [{ name: left }] } }
";

#[test]
fn row_05_an_unlimited_descriptor_still_replaces_limits() {
    let service = serve(REPLACING);
    let one = |key| {
        Descriptor::new(match key {
            "base" => &[("base", "x")],
            "other" => &[("other", "x")],
            _ => &[("free", "x")],
        })
    };
    for _ in 0..5 {
        let response = service.decide_all(&[one("base"), one("free"), one("other")]);
        assert_eq!(response.overall, Code::Ok);
    }
    assert_eq!(service.hit(&[("base", "x")]).limit_remaining, 1); // not charged before
}

#[test]
fn row_06_a_replaced_limit_is_dropped_and_not_counted() {
    let service = serve(REPLACING);
    let (base, big) = (Descriptor::new(&[("base", "x")]), Descriptor::new(&[("big", "x")]));
    for left in [3, 2, 1, 0] {
        let response = service.decide_all(&[base, big]);
        assert_eq!(response.overall, Code::Ok);
        let [replaced, replacing] = &response.statuses[..] else { panic!("two statuses") };
        assert_eq!((&replaced.current_limit, replaced.limit_remaining), (&None, 0));
        assert_eq!(replacing.limit_remaining, left);
    }
    assert_eq!(service.decide_all(&[base, big]).overall, Code::OverLimit);
    assert_eq!(service.decide_one(base).limit_remaining, 1);
    // The order of descriptors does not matter.
    assert_eq!(service.decide_all(&[big, base]).statuses[1].current_limit, None);
}

#[test]
fn row_06_limits_that_replace_each_other_are_both_dropped() {
    let service = serve(REPLACING);
    let (left, right) = (Descriptor::new(&[("left", "x")]), Descriptor::new(&[("right", "x")]));
    let response = service.decide_all(&[left, right]);
    assert!(response.statuses.iter().all(|status| status.current_limit.is_none()));
    assert!(service.store.is_empty());
}

#[test]
fn row_07_a_limit_in_the_request_replaces_that_of_the_file() {
    let service = serve(
        "
domain: d
descriptors:
  - key: k
    shadow_mode: true
    quota_mode: true
    rate_limit: { name: base, unit: minute, requests_per_unit: 5 }
  - { key: big, rate_limit: { unit: minute, requests_per_unit: 9, replaces: [{ name: base }] } }
",
    );
    let limit = Some(LimitOverride { requests_per_unit: 2, unit: Unit::Minute });
    let own = Descriptor { limit, ..Descriptor::new(ANN) };
    assert_eq!(service.decide_one(own).limit_remaining, 1);
    // The modes and `replaces` of the file do not apply to it.
    let big = Descriptor::new(&[("big", "x")]);
    let response = service.decide_all(&[own, big]);
    assert_eq!((response.overall, response.statuses[0].limit_remaining), (Code::Ok, 0));
    let response = service.decide_all(&[own, big]);
    assert_eq!((response.overall, response.statuses[0].code), (Code::OverLimit, Code::OverLimit));
    let reported = response.statuses[0].current_limit.clone().unwrap();
    assert_eq!((reported.requests_per_unit, reported.unit, reported.name), (2, Unit::Minute, None));
    // Entries that are not in the file are limited, too.
    let unknown = Descriptor { limit, ..Descriptor::new(&[("x", "y"), ("z", "")]) };
    assert_eq!(service.decide_one(unknown).limit_remaining, 1);
    // An unknown domain has no limits.
    let descriptors = [unknown];
    let response = service.decide(&RateLimitRequest::new("elsewhere", &descriptors));
    assert_eq!((response.overall, &response.statuses[0].current_limit), (Code::Ok, &None));
}

#[test]
fn row_07_limits_of_one_unit_share_a_counter_with_the_file() {
    let service = serve(FIVE);
    let own = |requests_per_unit, unit| {
        let limit = Some(LimitOverride { requests_per_unit, unit });
        Descriptor { limit, ..Descriptor::new(ANN) }
    };
    service.hit(ANN);
    assert_eq!(service.decide_one(own(10, Unit::Minute)).limit_remaining, 8);
    assert_eq!(service.decide_one(own(10, Unit::Hour)).limit_remaining, 9);
    assert_eq!(service.hit(ANN).limit_remaining, 2);
    // A limit of 0 in the request refuses everything.
    assert_eq!(service.decide_one(own(0, Unit::Day)).code, Code::OverLimit);
}

#[test]
fn row_08_a_count_above_the_limit_is_refused() {
    let service = serve(FIVE);
    for left in [4, 3, 2, 1, 0] {
        let status = service.hit(ANN);
        assert_eq!((status.code, status.limit_remaining), (Code::Ok, left));
    }
    assert_eq!(service.hit(ANN).code, Code::OverLimit);
    assert_eq!(service.hit(BOB).code, Code::Ok);
}

#[test]
fn row_08_refused_hits_are_charged_in_full() {
    let service = serve(FIVE);
    assert_eq!(service.decide_one(with_hits(ANN, 3)).limit_remaining, 2);
    let status = service.decide_one(with_hits(ANN, 4)); // two too many
    assert_eq!((status.code, status.limit_remaining), (Code::OverLimit, 0));
    assert_eq!(service.decide_one(with_hits(ANN, 1)).code, Code::OverLimit); // though 2 were left
    // 8 are spent; after a refund of 3 the count is 5, the limit.
    let refund = Descriptor { negative: true, ..with_hits(ANN, 3) };
    let status = service.decide_one(refund);
    assert_eq!((status.code, status.limit_remaining), (Code::Ok, 0));
}

#[test]
fn row_08_refused_hits_do_not_count_in_the_next_window() {
    let service = serve(FIVE);
    service.decide_one(with_hits(ANN, 1_000));
    service.advance(60);
    assert_eq!(service.hit(ANN).limit_remaining, 4);
}

#[test]
fn row_08_a_limit_of_zero_refuses_everything() {
    let service = serve(
        "
domain: d
descriptors:
  - { key: ip, value: 50.0.0.5, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: ip, rate_limit: { unit: second, requests_per_unit: 10 } }
",
    );
    let blocked: &[_] = &[("ip", "50.0.0.5")];
    assert_eq!(service.decide_one(with_hits(blocked, 0)).code, Code::Ok); // 0 is not more than 0
    let status = service.hit(blocked);
    assert_eq!((status.code, status.limit_remaining), (Code::OverLimit, 0));
    assert_eq!(status.current_limit.unwrap().requests_per_unit, 0);
    assert_eq!(service.decide_one(with_hits(blocked, 0)).code, Code::OverLimit); // the refused hit counts, and 1 is
    assert_eq!(service.hit(&[("ip", "50.0.0.6")]).code, Code::Ok);
}

#[test]
fn row_09_the_cost_of_a_descriptor_precedes_that_of_the_request() {
    let service = serve(FIVE);
    let remaining = |hits_addend, hits| {
        let descriptors = [Descriptor { hits, ..Descriptor::new(ANN) }];
        let request = RateLimitRequest { domain: "d", descriptors: &descriptors, hits_addend };
        service.decide(&request).statuses[0].limit_remaining
    };
    assert_eq!(remaining(0, None), 4); // one
    assert_eq!(remaining(2, None), 2);
    assert_eq!(remaining(2, Some(1)), 1);
    assert_eq!(remaining(2, Some(0)), 1); // charges nothing
    assert_eq!(remaining(1, None), 0);
}

#[test]
fn row_09_a_check_of_cost_zero_passes_exactly_at_the_limit() {
    let service = serve(FIVE);
    service.decide_one(with_hits(ANN, 5));
    let status = service.decide_one(with_hits(ANN, 0));
    assert_eq!((status.code, status.limit_remaining), (Code::Ok, 0));
    service.hit(ANN);
    assert_eq!(service.decide_one(with_hits(ANN, 0)).code, Code::OverLimit);
}

#[test]
fn row_09_negative_hits_refund_at_most_what_was_spent() {
    let service = serve(FIVE);
    service.decide_one(with_hits(ANN, 3));
    let after_refund = |hits| {
        service.decide_one(Descriptor { negative: true, ..with_hits(ANN, hits) }).limit_remaining
    };
    assert_eq!(after_refund(1), 3);
    assert_eq!(after_refund(100), 5);
    assert_eq!(service.hit(ANN).limit_remaining, 4);
}

#[test]
fn row_09_each_descriptor_of_a_request_has_its_own_cost() {
    let service = serve(FIVE);
    let refund = Descriptor { negative: true, ..with_hits(BOB, 2) };
    let descriptors =
        [with_hits(ANN, 2), with_hits(BOB, 3), refund, with_hits(ANN, 0), with_hits(ANN, 1)];
    let response = service.decide_all(&descriptors);
    let left: Vec<_> = response.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(left, [3, 2, 4, 3, 2]);
}

#[test]
fn row_14_windows_are_aligned_to_the_epoch_and_units_have_fixed_lengths() {
    for (unit, length) in [
        ("second", 1),
        ("MINUTE", 60),
        ("Hour", 3_600),
        ("day", 86_400),
        ("WEEK", 7 * 86_400),
        ("month", 30 * 86_400),
        ("yEAR", 365 * 86_400),
    ] {
        let file = format!(
            "
domain: d
descriptors:
  - {{ key: k, rate_limit: {{ unit: {unit}, requests_per_unit: 1 }} }}
"
        );
        let service = serve(&file);
        let now = super::service::NOW / 1_000_000_000;
        let left = length - now % length; // the clock is half a second later
        let status = service.hit(ANN);
        assert_eq!(status.duration_until_reset.unwrap().as_secs(), left, "{unit}");
        assert_eq!(service.hit(ANN).code, Code::OverLimit);
        service.advance(left - 1);
        assert_eq!(service.hit(ANN).code, Code::OverLimit, "{unit}");
        service.advance(1);
        assert_eq!(service.hit(ANN).code, Code::Ok, "{unit}");
    }
}

const SHARED: &str = "
domain: d
descriptors:
  - { key: f, value: doc/*, share_threshold: true, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - { key: f, value: own/*, rate_limit: { unit: hour, requests_per_unit: 5 } }
  - key: tenant
    value: t*prod
    share_threshold: true
    descriptors:
      - { key: user, rate_limit: { unit: hour, requests_per_unit: 5 } }
";

#[test]
fn row_15_values_of_a_shared_wildcard_share_one_counter() {
    let service = serve(SHARED);
    assert_eq!(service.hit(&[("f", "doc/a")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("f", "doc/b")]).limit_remaining, 3);
    assert_eq!(service.hit(&[("f", "doc/*")]).limit_remaining, 2); // the pattern itself is a value, too
    assert_eq!(service.hit(&[("f", "own/a")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("f", "own/b")]).limit_remaining, 4);
    // Only the level with `share_threshold` is shared.
    assert_eq!(service.hit(&[("tenant", "t1prod"), ("user", "ann")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("tenant", "t2prod"), ("user", "ann")]).limit_remaining, 3);
    assert_eq!(service.hit(&[("tenant", "t1prod"), ("user", "bob")]).limit_remaining, 4);
}
