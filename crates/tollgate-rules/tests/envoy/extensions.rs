//! Extensions of the format: algorithms, windows of several units, several limits, the short form.

use std::time::Duration;

use tollgate_rules::Request;
use tollgate_rules::envoy::{Code, Descriptor, Unit};

use super::service::{read, serve, serve_all, with_hits};

const ANN: &[(&str, &str)] = &[("k", "ann")];

fn with_limit(limit: &str) -> String {
    format!(
        "
domain: d
descriptors:
  - {{ key: k, rate_limit: {limit} }}
"
    )
}

#[test]
fn a_window_may_have_several_units() {
    let service = serve(&with_limit("{ unit: minute, unit_multiplier: 15, requests_per_unit: 2 }"));
    let status = service.hit(ANN);
    let limit = status.current_limit.unwrap();
    assert_eq!((limit.unit, limit.unit_multiplier), (Unit::Minute, 15));
    assert_eq!(status.duration_until_reset, Some(Duration::from_secs(15 * 60 - 7)));
    assert_eq!(service.passes(ANN), 1);
    service.advance(15 * 60 - 8);
    assert_eq!(service.passes(ANN), 0);
    service.advance(1);
    assert_eq!(service.passes(ANN), 2);
}

#[test]
fn with_a_named_algorithm_refusals_cost_nothing() {
    for (algorithm, after_half) in [
        ("token_bucket", 2),
        ("gcra", 2),
        ("fixed_window", 0),
        ("fixed", 0),
        ("sliding_window slots 2", 0),
        ("sliding_log", 0),
    ] {
        let limit = format!("{{ unit: hour, requests_per_unit: 4, algorithm: {algorithm} }}");
        let service = serve(&with_limit(&limit));
        assert_eq!(service.passes(ANN), 4, "{algorithm}");
        let status = service.decide_one(with_hits(ANN, 3));
        assert_eq!((status.code, status.limit_remaining), (Code::OverLimit, 0), "{algorithm}");
        service.advance(1_800);
        assert_eq!(service.passes(ANN), after_half, "{algorithm}");
    }
}

#[test]
fn a_refusal_by_a_named_algorithm_leaves_the_remainder() {
    let service =
        serve(&with_limit("{ unit: hour, requests_per_unit: 4, algorithm: fixed_window }"));
    service.hit(ANN);
    let status = service.decide_one(with_hits(ANN, 4));
    assert_eq!((status.code, status.limit_remaining), (Code::OverLimit, 3));
    assert_eq!(service.decide_one(with_hits(ANN, 3)).code, Code::Ok);
    assert_eq!(service.decide_one(with_hits(ANN, 0)).code, Code::Ok);
    let refund = Descriptor { negative: true, ..with_hits(ANN, 1) };
    assert_eq!(service.decide_one(refund).limit_remaining, 1);
}

#[test]
fn a_limit_with_burst_is_a_token_bucket() {
    let service = serve(&with_limit("{ unit: second, requests_per_unit: 1, burst: 5 }"));
    assert_eq!(service.passes(ANN), 5);
    service.advance(2);
    assert_eq!(service.passes(ANN), 2);
}

#[test]
fn calendar_months_have_their_own_lengths() {
    let service = serve(&with_limit("{ unit: month, requests_per_unit: 1, algorithm: calendar }"));
    assert_eq!(
        service.hit(ANN).duration_until_reset.unwrap().as_secs(),
        31 * 86_400 - 12 * 3_600 - 7
    );
}

#[test]
fn a_limit_of_zero_with_an_algorithm_refuses_everything() {
    let service =
        serve(&with_limit("{ unit: hour, requests_per_unit: 0, algorithm: token_bucket }"));
    assert_eq!(service.passes(ANN), 0);
    assert_eq!(service.limit(ANN), Some(0));
}

const SEVERAL: &str = "
domain: d
descriptors:
  - key: k
    rate_limits:
      - { name: slow, unit: hour, requests_per_unit: 5 }
      - { name: fast, unit: minute, requests_per_unit: 2 }
  - { key: vip, rate_limit: { unlimited: true, replaces: [{ name: fast }] } }
";

#[test]
fn all_limits_of_a_descriptor_apply_and_the_tightest_is_reported() {
    let service = serve(SEVERAL);
    let reported = |descriptor| {
        let status = service.decide_one(descriptor);
        (status.code, status.limit_remaining, status.current_limit.unwrap().requests_per_unit)
    };
    assert_eq!(reported(Descriptor::new(ANN)), (Code::Ok, 1, 2));
    assert_eq!(reported(Descriptor::new(ANN)), (Code::Ok, 0, 2));
    assert_eq!(reported(Descriptor::new(ANN)), (Code::OverLimit, 0, 2));
    service.advance(60);
    assert_eq!(reported(Descriptor::new(ANN)), (Code::Ok, 1, 5)); // 4 of 5: refusals count
    assert_eq!(reported(Descriptor::new(ANN)), (Code::Ok, 0, 5)); // both have 0 remaining: the first
    assert_eq!(reported(Descriptor::new(ANN)), (Code::OverLimit, 0, 2)); // both are exceeded: the last
}

#[test]
fn one_of_several_limits_may_be_replaced() {
    let service = serve(SEVERAL);
    let (both, vip) = (Descriptor::new(ANN), Descriptor::new(&[("vip", "yes")]));
    let passed =
        (0..10).take_while(|_| service.decide_all(&[both, vip]).overall == Code::Ok).count();
    assert_eq!(passed, 5);
}

#[test]
fn limits_with_an_algorithm_are_charged_all_or_none() {
    let service = serve(
        "
domain: d
descriptors:
  - key: k
    rate_limit: { unit: hour, requests_per_unit: 5 }
    rate_limits: [{ unit: minute, requests_per_unit: 2, algorithm: sliding_log }]
",
    );
    assert_eq!(service.passes(ANN), 2); // and one is refused
    service.advance(60);
    assert_eq!(service.passes(ANN), 2);
    service.advance(60);
    assert_eq!(service.passes(ANN), 1); // the hour's fifth: refusals were not counted
}

#[test]
fn limits_of_the_same_length_do_not_share_a_counter() {
    let service = serve(
        "
domain: d
descriptors:
  - key: k
    rate_limits:
      - { unit: minute, requests_per_unit: 3 }
      - { unit: minute, requests_per_unit: 9 }
      - { unit: second, unit_multiplier: 60, requests_per_unit: 9 }
",
    );
    assert_eq!(service.passes(ANN), 3);
}

#[test]
fn the_short_form_has_a_domain_and_a_key() {
    let service = serve_all(&[
        "{ domain: d, key: login, rate_limit: { unit: minute, requests: 2 } }",
        "{ domain: d, key: reset, rate_limit: { unit: day, requests_per_unit: 1, algorithm: token_bucket } }",
        "domain: mail\nkey: email\nrate_limit:\n    unit: day\n    requests: 5\n",
    ]);
    assert_eq!(service.passes(&[("login", "ann")]), 2);
    assert_eq!(service.passes(&[("login", "bob")]), 2);
    assert_eq!(service.passes(&[("reset", "ann")]), 1);
    assert!(service.domains.get("mail").is_some());
}

#[test]
fn a_key_of_the_short_form_has_one_file() {
    let diagnostics = read(&[
        "{ domain: d, key: login, rate_limit: { unit: minute, requests: 2 } }",
        "{ domain: d, key: login, rate_limit: { unit: day, requests: 9 } }",
    ])
    .unwrap_err();
    assert_eq!(
        diagnostics.errors().map(|error| error.code()).collect::<Vec<_>>(),
        ["duplicate-descriptor"]
    );
}

#[test]
fn a_request_of_attributes_is_one_descriptor() {
    let service = serve(
        "
domain: d
descriptors:
  - key: method
    descriptors:
      - key: path
        value: /orders/*
        descriptors:
          - key: ip
            descriptors:
              - { key: user, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - key: user
    descriptors:
      - { key: level, value: 3, rate_limit: { unit: minute, requests_per_unit: 1 } }
",
    );
    let tree = service.domains.get("d").unwrap();
    let left = |request: Request<'_>| {
        let status = &tree.plan_request(&request).decide(&service.store).statuses[0];
        status.current_limit.as_ref().map(|_| status.limit_remaining)
    };
    let order = || {
        let peer = "203.0.113.7".parse().unwrap();
        Request::new("POST", "/orders/./7?x=1").peer(peer).attribute("user", "ann")
    };
    assert_eq!(left(order()), Some(4));
    assert_eq!(left(order().cost(3)), Some(1));
    assert_eq!(left(Request::empty().attribute("user", "ann").attribute("level", 3_i64)), Some(0));
    // Attributes are taken in the order they were set.
    assert_eq!(left(Request::empty().attribute("level", 3_i64).attribute("user", "ann")), None);
    assert_eq!(left(Request::empty()), None);
}
