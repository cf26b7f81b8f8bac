//! Domains written as rules answer Envoy, too.

use std::time::Duration;

use tollgate::rules::RuleLimiter;
use tollgate::rules::envoy::{
    Code, Descriptor, LimitOverride, RateLimitAnswer, RateLimitRequest, Unit,
};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Rules, Time};

use super::service::{NOW, costs};

fn limiter(rules: &str) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::at(Time::from_nanos(NOW));
    let rules: Rules = rules.parse().unwrap_or_else(|found| panic!("{found}"));
    (Limiter::builder().clock(&clock).build_rules(rules), clock)
}

fn ask(limiter: &RuleLimiter, descriptors: &[Descriptor<'_>]) -> RateLimitAnswer {
    limiter.decide_envoy(&RateLimitRequest::new("shop", descriptors))
}

#[test]
fn a_descriptor_is_a_request() {
    let (limiter, clock) = limiter(
        "domain: shop\nrules: [{ name: login, route: POST /login, per: ip, limit: 2/min }]",
    );
    let entries = [(":method", "POST"), (":path", "/login?x=1"), ("remote_address", "192.0.2.1")];
    let login = [Descriptor::new(&entries)];
    for left in [1, 0] {
        let status = &ask(&limiter, &login).statuses[0];
        assert_eq!((status.code, status.limit_remaining), (Code::Ok, left));
        let limit = status.current_limit.as_ref().unwrap();
        assert_eq!(limit.name.as_deref(), Some("login"));
        let told = (limit.requests_per_unit, limit.unit, limit.unit_multiplier);
        assert_eq!(told, (2, Unit::Minute, 1));
    }
    let refused = ask(&limiter, &login);
    assert_eq!(refused.overall, Code::OverLimit);
    assert_eq!(refused.statuses[0].duration_until_reset, Some(Duration::from_secs(60)));
    assert_eq!(refused.statuses[0].retry_after, Some(Duration::from_secs(30)));
    let headers = refused.headers.unwrap();
    assert_eq!((headers.limit, headers.remaining, headers.reset), (2, 0, 60));

    let other =
        [(":method", "POST"), (":path", "/login"), ("masked_remote_address", "192.0.3.0/24")];
    assert_eq!(ask(&limiter, &[Descriptor::new(&other)]).overall, Code::Ok);
    clock.advance(Duration::from_secs(30));
    assert_eq!(ask(&limiter, &login).overall, Code::Ok, "what is refused costs nothing");
}

#[test]
fn each_descriptor_has_a_status_of_its_own() {
    let (limiter, _) = limiter(
        "domain: shop
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
    let answer = ask(&limiter, &descriptors);
    assert_eq!(answer.overall, Code::Ok);
    let told: Vec<_> = answer.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!(told, [0, 9, u32::MAX, 0]);
    let units = |index: usize| {
        answer.statuses[index].current_limit.as_ref().map(|limit| limit.unit_multiplier)
    };
    assert_eq!([units(0), units(1), units(2)], [Some(15), Some(1), None]);

    let answer = ask(&limiter, &descriptors);
    let codes: Vec<_> = answer.statuses.iter().map(|status| status.code).collect();
    assert_eq!(codes, [Code::OverLimit, Code::Ok, Code::Ok, Code::Ok]);
    assert_eq!(answer.overall, Code::OverLimit);
    let closed = ask(&limiter, &[Descriptor::new(&[("path", "/closed")])]);
    assert_eq!(
        (closed.overall, closed.statuses[0].current_limit.is_none()),
        (Code::OverLimit, true)
    );
}

#[test]
fn an_addend_is_the_cost_and_nothing_is_a_look() {
    let (limiter, _) = limiter("domain: shop\nrules: [{ name: api, per: user, limit: 10/h }]");
    let ann = [("user", "ann")];
    let left = |descriptor| ask(&limiter, &[descriptor]).statuses[0].limit_remaining;
    assert_eq!(left(costs(&ann, 0)), 10);
    assert_eq!(left(costs(&ann, 7)), 3);
    let request = RateLimitRequest { hits_addend: 3, ..RateLimitRequest::new("shop", &[]) };
    let asked = RateLimitRequest { descriptors: &[Descriptor::new(&ann)], ..request };
    assert_eq!(limiter.decide_envoy(&asked).statuses[0].limit_remaining, 0);
    assert_eq!(ask(&limiter, &[costs(&ann, 0)]).overall, Code::Ok, "a look at the limit passes");
    assert_eq!(ask(&limiter, &[costs(&ann, 1)]).overall, Code::OverLimit);
    assert_eq!(left(Descriptor { negative: true, ..costs(&ann, 4) }), 4);
}

#[test]
fn a_limit_of_its_own_stands_in_for_the_rules() {
    let (limiter, _) = limiter("domain: shop\nrules: [{ name: api, per: user, limit: 10/h }]");
    let limit = Some(LimitOverride { requests_per_unit: 1, unit: Unit::Day });
    let own = [Descriptor { limit, ..Descriptor::new(&[("user", "ann")]) }];
    assert_eq!(ask(&limiter, &own).overall, Code::Ok);
    assert_eq!(ask(&limiter, &own).overall, Code::OverLimit);
    assert_eq!(
        ask(&limiter, &[Descriptor::new(&[("user", "ann")])]).statuses[0].limit_remaining,
        9
    );
}

#[test]
fn shadow_and_places_are_told_as_far_as_there_are_words() {
    let (limiter, _) = limiter(
        "domain: shop
rules:
  - { name: shadow, when: has(user), per: user, limit: 1/s, mode: shadow }
  - { name: places, when: has(db), limit: 2 concurrent }",
    );
    let shadow = [Descriptor::new(&[("user", "ann")])];
    for _ in 0..3 {
        let answer = ask(&limiter, &shadow);
        assert_eq!(answer.overall, Code::Ok);
        assert!(answer.statuses[0].current_limit.is_some());
    }
    let places = ask(&limiter, &[Descriptor::new(&[("db", "1")])]);
    assert_eq!((places.overall, places.statuses[0].limit_remaining), (Code::Ok, 1));
    assert_eq!(places.statuses[0].current_limit, None);
}

#[test]
fn an_unknown_domain_limits_nothing() {
    let (limiter, _) = limiter("domain: shop\nrules: [{ name: api, limit: 1/h }]");
    let descriptors = [Descriptor::new(&[("user", "ann")])];
    for _ in 0..3 {
        let answer = limiter.decide_envoy(&RateLimitRequest::new("elsewhere", &descriptors));
        assert_eq!((answer.overall, answer.headers), (Code::Ok, None));
    }
}
