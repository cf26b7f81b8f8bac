//! Rows 5 to 9, 14 and 15: what is counted, where, and until when.

use tollgate::rules::envoy::{Code, Descriptor, LimitOverride, RateLimitRequest, Unit};

use super::service::{costs, serve};

const FIVE: &str = "
domain: d
descriptors:
  - { key: k, rate_limit: { unit: minute, requests_per_unit: 5 } }
";
const ANN: &[(&str, &str)] = &[("k", "ann")];
const BOB: &[(&str, &str)] = &[("k", "bob")];

#[test]
fn row_05_unlimited_passes_without_asking_the_store() {
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
fn row_05_what_is_unlimited_still_replaces() {
    let service = serve(REPLACING);
    let one = |key| {
        Descriptor::new(match key {
            "base" => &[("base", "x")],
            "other" => &[("other", "x")],
            _ => &[("free", "x")],
        })
    };
    for _ in 0..5 {
        let answer = service.ask_all(&[one("base"), one("free"), one("other")]);
        assert_eq!(answer.overall, Code::Ok);
    }
    assert_eq!(service.hit(&[("base", "x")]).limit_remaining, 1); // untouched till now
}

#[test]
fn row_06_a_replaced_limit_is_dropped_and_not_counted() {
    let service = serve(REPLACING);
    let (base, big) = (Descriptor::new(&[("base", "x")]), Descriptor::new(&[("big", "x")]));
    for left in [3, 2, 1, 0] {
        let answer = service.ask_all(&[base, big]);
        assert_eq!(answer.overall, Code::Ok);
        let [replaced, replacing] = &answer.statuses[..] else { panic!("two statuses") };
        assert_eq!((&replaced.current_limit, replaced.limit_remaining), (&None, 0));
        assert_eq!(replacing.limit_remaining, left);
    }
    assert_eq!(service.ask_all(&[base, big]).overall, Code::OverLimit);
    assert_eq!(service.ask(base).limit_remaining, 1);
    // Replacing is not a matter of order, and not of this request only.
    assert_eq!(service.ask_all(&[big, base]).statuses[1].current_limit, None);
}

#[test]
fn row_06_limits_that_replace_each_other_are_both_dropped() {
    let service = serve(REPLACING);
    let (left, right) = (Descriptor::new(&[("left", "x")]), Descriptor::new(&[("right", "x")]));
    let answer = service.ask_all(&[left, right]);
    assert!(answer.statuses.iter().all(|status| status.current_limit.is_none()));
    assert!(service.store.is_empty());
}

#[test]
fn row_07_a_limit_in_the_request_stands_in_for_the_files() {
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
    assert_eq!(service.ask(own).limit_remaining, 1);
    // Neither shadow nor quota nor replaces is asked.
    let big = Descriptor::new(&[("big", "x")]);
    let answer = service.ask_all(&[own, big]);
    assert_eq!((answer.overall, answer.statuses[0].limit_remaining), (Code::Ok, 0));
    let answer = service.ask_all(&[own, big]);
    assert_eq!((answer.overall, answer.statuses[0].code), (Code::OverLimit, Code::OverLimit));
    let shown = answer.statuses[0].current_limit.clone().unwrap();
    assert_eq!((shown.requests_per_unit, shown.unit, shown.name), (2, Unit::Minute, None));
    // Entries the file does not know are limited as well.
    let unknown = Descriptor { limit, ..Descriptor::new(&[("x", "y"), ("z", "")]) };
    assert_eq!(service.ask(unknown).limit_remaining, 1);
    // A domain that nobody configured is not.
    let elsewhere = [unknown];
    let answer = service.decide(&RateLimitRequest::new("elsewhere", &elsewhere));
    assert_eq!((answer.overall, &answer.statuses[0].current_limit), (Code::Ok, &None));
}

#[test]
fn row_07_of_the_same_unit_both_limits_count_together() {
    let service = serve(FIVE);
    let own = |requests_per_unit, unit| {
        let limit = Some(LimitOverride { requests_per_unit, unit });
        Descriptor { limit, ..Descriptor::new(ANN) }
    };
    service.hit(ANN);
    assert_eq!(service.ask(own(10, Unit::Minute)).limit_remaining, 8);
    assert_eq!(service.ask(own(10, Unit::Hour)).limit_remaining, 9);
    assert_eq!(service.hit(ANN).limit_remaining, 2);
    // A limit of nothing that a request brings along lets nothing pass.
    assert_eq!(service.ask(own(0, Unit::Day)).code, Code::OverLimit);
}

#[test]
fn row_08_over_is_more_than_the_limit() {
    let service = serve(FIVE);
    for left in [4, 3, 2, 1, 0] {
        let status = service.hit(ANN);
        assert_eq!((status.code, status.limit_remaining), (Code::Ok, left));
    }
    assert_eq!(service.hit(ANN).code, Code::OverLimit);
    assert_eq!(service.hit(BOB).code, Code::Ok);
}

#[test]
fn row_08_refused_hits_count_and_so_does_all_of_an_addend() {
    let service = serve(FIVE);
    assert_eq!(service.ask(costs(ANN, 3)).limit_remaining, 2);
    let status = service.ask(costs(ANN, 4)); // two too many
    assert_eq!((status.code, status.limit_remaining), (Code::OverLimit, 0));
    assert_eq!(service.ask(costs(ANN, 1)).code, Code::OverLimit); // though 2 were left
    // 8 are spent: three given back are 5, which is the limit.
    let back = Descriptor { negative: true, ..costs(ANN, 3) };
    let status = service.ask(back);
    assert_eq!((status.code, status.limit_remaining), (Code::Ok, 0));
}

#[test]
fn row_08_what_was_refused_is_not_carried_into_the_next_window() {
    let service = serve(FIVE);
    service.ask(costs(ANN, 1_000));
    service.advance(60);
    assert_eq!(service.hit(ANN).limit_remaining, 4);
}

#[test]
fn row_08_of_a_limit_of_nothing_nothing_passes() {
    let service = serve(
        "
domain: d
descriptors:
  - { key: ip, value: 50.0.0.5, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: ip, rate_limit: { unit: second, requests_per_unit: 10 } }
",
    );
    let blocked: &[_] = &[("ip", "50.0.0.5")];
    assert_eq!(service.ask(costs(blocked, 0)).code, Code::Ok); // 0 is not more than 0
    let status = service.hit(blocked);
    assert_eq!((status.code, status.limit_remaining), (Code::OverLimit, 0));
    assert_eq!(status.current_limit.unwrap().requests_per_unit, 0);
    assert_eq!(service.ask(costs(blocked, 0)).code, Code::OverLimit); // 1 is
    assert_eq!(service.hit(&[("ip", "50.0.0.6")]).code, Code::Ok);
}

#[test]
fn row_09_a_descriptor_says_what_it_costs_or_else_the_request() {
    let service = serve(FIVE);
    let with = |hits_addend, hits| {
        let descriptors = [Descriptor { hits, ..Descriptor::new(ANN) }];
        let request = RateLimitRequest { domain: "d", descriptors: &descriptors, hits_addend };
        service.decide(&request).statuses[0].limit_remaining
    };
    assert_eq!(with(0, None), 4); // one
    assert_eq!(with(2, None), 2);
    assert_eq!(with(2, Some(1)), 1);
    assert_eq!(with(2, Some(0)), 1); // a look
    assert_eq!(with(1, None), 0);
}

#[test]
fn row_09_a_look_exactly_at_the_limit_is_fine() {
    let service = serve(FIVE);
    service.ask(costs(ANN, 5));
    let status = service.ask(costs(ANN, 0));
    assert_eq!((status.code, status.limit_remaining), (Code::Ok, 0));
    service.hit(ANN);
    assert_eq!(service.ask(costs(ANN, 0)).code, Code::OverLimit);
}

#[test]
fn row_09_negative_hits_give_back_but_never_more_than_was_spent() {
    let service = serve(FIVE);
    service.ask(costs(ANN, 3));
    let back =
        |hits| service.ask(Descriptor { negative: true, ..costs(ANN, hits) }).limit_remaining;
    assert_eq!(back(1), 3);
    assert_eq!(back(100), 5);
    assert_eq!(service.hit(ANN).limit_remaining, 4);
}

#[test]
fn row_09_each_descriptor_of_a_request_has_its_own_cost() {
    let service = serve(FIVE);
    let back = Descriptor { negative: true, ..costs(BOB, 2) };
    let descriptors = [costs(ANN, 2), costs(BOB, 3), back, costs(ANN, 0), costs(ANN, 1)];
    let answer = service.ask_all(&descriptors);
    let left: Vec<_> = answer.statuses.iter().map(|status| status.limit_remaining).collect();
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
        let left = length - now % length; // the clock is half a second further
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
fn row_15_values_of_a_shared_wildcard_are_one_counter() {
    let service = serve(SHARED);
    assert_eq!(service.hit(&[("f", "doc/a")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("f", "doc/b")]).limit_remaining, 3);
    assert_eq!(service.hit(&[("f", "doc/*")]).limit_remaining, 2); // no way around it
    assert_eq!(service.hit(&[("f", "own/a")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("f", "own/b")]).limit_remaining, 4);
    // Only the level that says so is shared.
    assert_eq!(service.hit(&[("tenant", "t1prod"), ("user", "ann")]).limit_remaining, 4);
    assert_eq!(service.hit(&[("tenant", "t2prod"), ("user", "ann")]).limit_remaining, 3);
    assert_eq!(service.hit(&[("tenant", "t1prod"), ("user", "bob")]).limit_remaining, 4);
}
