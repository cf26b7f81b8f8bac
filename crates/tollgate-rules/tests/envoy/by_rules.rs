//! Requests of Envoy in domains that are written as rules.

use std::time::Duration;

use tollgate::Time;
use tollgate::testing::ManualClock;
use tollgate_rules::envoy::{
    self, Code, Descriptor, LimitOverride, RateLimitRequest, RateLimitResponse, Unit,
};
use tollgate_rules::{RuleLimiter, Rules};

use super::service::{NOW, with_hits};
use crate::support::block_on;

fn limiter(rules: &str) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::at(Time::from_nanos(NOW));
    let rules: Rules = rules.parse().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    (RuleLimiter::builder().clock(&clock).build(rules), clock)
}

fn decide(limiter: &RuleLimiter, descriptors: &[Descriptor<'_>]) -> RateLimitResponse {
    block_on(envoy::decide(limiter, &RateLimitRequest::new("shop", descriptors))).unwrap()
}

#[test]
fn a_descriptor_is_matched_as_a_request() {
    let (limiter, clock) = limiter(
        "domain: shop\nrules: [{ name: login, route: POST /login, per: ip, limit: 2/min }]",
    );
    let entries = [(":method", "POST"), (":path", "/login?x=1"), ("remote_address", "192.0.2.1")];
    let login = [Descriptor::new(&entries)];
    for left in [1, 0] {
        let status = &decide(&limiter, &login).statuses[0];
        assert_eq!((status.code, status.limit_remaining), (Code::Ok, left));
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!(limit.name.as_deref(), Some("login"));
        let limit = (limit.requests_per_unit, limit.unit, limit.unit_multiplier);
        assert_eq!(limit, (2, Unit::Minute, 1));
    }
    let refused = decide(&limiter, &login);
    assert_eq!(refused.overall, Code::OverLimit);
    assert_eq!(refused.statuses[0].duration_until_reset, Some(Duration::from_secs(60)));
    assert_eq!(refused.statuses[0].retry_after, Some(Duration::from_secs(30)));
    let headers = refused.headers.unwrap();
    assert_eq!((headers.limit, headers.remaining, headers.reset), (2, 0, 60));

    let other =
        [(":method", "POST"), (":path", "/login"), ("masked_remote_address", "192.0.3.0/24")];
    assert_eq!(decide(&limiter, &[Descriptor::new(&other)]).overall, Code::Ok);
    clock.advance(Duration::from_secs(30));
    assert_eq!(decide(&limiter, &login).overall, Code::Ok, "a refused request costs nothing");
}

#[test]
fn each_descriptor_has_its_own_status() {
    let (limiter, _) = limiter(
        "domain: shop
attributes: [org, role, user]
rules:
  - { name: user, per: user, limit: 1/15min, when: has(user) }
  - { name: org, per: 'header[\"x-org\"]', limit: 10/h, when: has(org) }
  - { name: staff, when: role == \"staff\", then: allow }
  - { name: closed, when: path == \"/closed\", then: deny }",
    );
    let descriptors = [
        Descriptor::new(&[("user", "ann")]),
        Descriptor::new(&[("org", "yes"), ("header.x-org", "acme")]),
        Descriptor::new(&[("role", "staff")]),
        Descriptor::new(&[("generic_key", "nothing")]),
    ];
    let response = decide(&limiter, &descriptors);
    assert_eq!(response.overall, Code::Ok);
    let remaining: Vec<_> = response.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(remaining, [0, 9, u32::MAX, 0]);
    let units = |index: usize| {
        response.statuses[index].current_limit.as_ref().map(|limit| limit.unit_multiplier)
    };
    assert_eq!([units(0), units(1), units(2)], [Some(15), Some(1), None]);

    let response = decide(&limiter, &descriptors);
    let codes: Vec<_> = response.statuses.iter().map(|status| status.code).collect();
    assert_eq!(codes, [Code::OverLimit, Code::Ok, Code::Ok, Code::Ok]);
    assert_eq!(response.overall, Code::OverLimit);
    let closed = decide(&limiter, &[Descriptor::new(&[("path", "/closed")])]);
    assert_eq!(
        (closed.overall, closed.statuses[0].current_limit.is_none()),
        (Code::OverLimit, true)
    );
}

#[test]
fn hits_are_the_cost_and_zero_hits_charge_nothing() {
    let (limiter, _) =
        limiter("domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 10/h }]");
    let ann = [("user", "ann")];
    let left = |descriptor| decide(&limiter, &[descriptor]).statuses[0].limit_remaining;
    assert_eq!(left(with_hits(&ann, 0)), 10);
    assert_eq!(left(with_hits(&ann, 7)), 3);
    let request = RateLimitRequest { hits_addend: 3, ..RateLimitRequest::new("shop", &[]) };
    let request = RateLimitRequest { descriptors: &[Descriptor::new(&ann)], ..request };
    assert_eq!(block_on(envoy::decide(&limiter, &request)).unwrap().statuses[0].limit_remaining, 0);
    assert_eq!(
        decide(&limiter, &[with_hits(&ann, 0)]).overall,
        Code::Ok,
        "a check of cost 0 passes at the limit"
    );
    assert_eq!(decide(&limiter, &[with_hits(&ann, 1)]).overall, Code::OverLimit);
    assert_eq!(left(Descriptor { negative: true, ..with_hits(&ann, 4) }), 4);
}

#[test]
fn a_limit_in_the_request_replaces_the_rules() {
    let (limiter, _) =
        limiter("domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 10/h }]");
    let limit = Some(LimitOverride { requests_per_unit: 1, unit: Unit::Day });
    let own = [Descriptor { limit, ..Descriptor::new(&[("user", "ann")]) }];
    assert_eq!(decide(&limiter, &own).overall, Code::Ok);
    assert_eq!(decide(&limiter, &own).overall, Code::OverLimit);
    assert_eq!(
        decide(&limiter, &[Descriptor::new(&[("user", "ann")])]).statuses[0].limit_remaining,
        9
    );
}

#[test]
fn a_descriptor_that_lacks_an_attribute_of_a_key_says_so() {
    let (limiter, _) =
        limiter("domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 10/h }]");
    let entries = [("user", "ann")];
    let descriptors = [Descriptor::new(&entries), Descriptor::new(&[("usr", "ann")])];
    let response = decide(&limiter, &descriptors);
    assert!(response.statuses[0].incomplete_keys.is_empty());
    let expected = [("api".into(), vec!["user".to_owned()])];
    assert_eq!(response.statuses[1].incomplete_keys, expected);
}

#[test]
fn shadow_rules_report_a_limit_and_concurrency_only_its_remaining_permits() {
    let (limiter, _) = limiter(
        "domain: shop
attributes: [db, user]
rules:
  - { name: shadow, when: has(user), per: user, limit: 1/s, mode: shadow }
  - { name: permits, when: has(db), limit: 2 concurrent }",
    );
    let shadow = [Descriptor::new(&[("user", "ann")])];
    for _ in 0..3 {
        let response = decide(&limiter, &shadow);
        assert_eq!(response.overall, Code::Ok);
        assert!(response.statuses[0].current_limit.is_some());
    }
    let permits = decide(&limiter, &[Descriptor::new(&[("db", "1")])]);
    assert_eq!((permits.overall, permits.statuses[0].limit_remaining), (Code::Ok, 1));
    assert_eq!(permits.statuses[0].current_limit, None);
}

#[test]
fn descriptors_are_decided_together_where_the_rules_say_so() {
    let (limiter, _) = limiter(
        r#"domain: shop
defaults: { descriptors: together, missing_key: skip }
attributes: [user]
rules:
  - { name: both, when: 'descriptors[0]["a"] == "1" && descriptors[1].b == "2"', limit: 2/h }
  - { name: second, per: 'descriptors[1]["x-y"]', limit: 1/h }
  - { name: last, per: user, limit: 3/h }"#,
    );
    let pair = [Descriptor::new(&[("a", "1")]), Descriptor::new(&[("b", "2")])];
    let left = |descriptors: &[Descriptor<'_>]| {
        let response = decide(&limiter, descriptors);
        let codes: Vec<Code> = response.statuses.iter().map(|status| status.code).collect();
        assert!(
            codes.iter().all(|code| *code == response.overall) && codes.len() == descriptors.len()
        );
        (response.overall == Code::Ok).then_some(response.statuses[0].limit_remaining)
    };
    // One request, however many descriptors it has.
    assert_eq!([left(&pair), left(&pair), left(&pair)], [Some(1), Some(0), None]);
    // The number of a descriptor matters.
    let swapped = [pair[1], pair[0]];
    assert_eq!(left(&swapped), Some(0), "no limit applies");
    let dashed = Descriptor::new(&[("x-y", "k")]);
    assert_eq!(left(&[dashed, dashed]), Some(0));
    assert_eq!(left(&[dashed, dashed]), None);
    assert_eq!(left(&[dashed]), Some(0), "there is no second one");
    // A plain name is the entry of the last descriptor that has it.
    let users = [Descriptor::new(&[("user", "ann")]), Descriptor::new(&[("user", "bob")])];
    assert_eq!([left(&users), left(&users[1..]), left(&users[..1])], [Some(2), Some(1), Some(2)]);
    // The request costs what its dearest descriptor costs.
    let hits = [with_hits(&[("user", "zoe")], 2), with_hits(&[("user", "zoe")], 1)];
    assert_eq!([left(&hits), left(&hits)], [Some(1), None]);
}

#[test]
fn an_entry_of_a_descriptor_needs_descriptors_that_are_decided_together() {
    for (rule, expected) in [
        (r#"per: 'descriptors[0]["a"]'"#, "each descriptor is a request of its own"),
        (r#"per: 'descriptors[99]["a"]'"#, "which entry of which descriptor"),
        (r#"when: 'descriptors[0] == "a"'"#, "which entry of which descriptor"),
    ] {
        let text = format!("domain: shop\nrules: [{{ name: api, {rule}, limit: 1/h }}]");
        let found = text.parse::<Rules>().unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn an_unknown_domain_limits_nothing() {
    let (limiter, _) = limiter("domain: shop\nrules: [{ name: api, limit: 1/h }]");
    let descriptors = [Descriptor::new(&[("user", "ann")])];
    for _ in 0..3 {
        let response =
            block_on(envoy::decide(&limiter, &RateLimitRequest::new("elsewhere", &descriptors)))
                .unwrap();
        assert_eq!((response.overall, response.headers), (Code::Ok, None));
    }
}
