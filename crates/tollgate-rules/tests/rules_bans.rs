//! Bans that are given as data.

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rules::{BanData, Data, Reason, Request, RuleLimiter, Rules};

const RULES: &str = "
defaults: { timezone: Europe/Berlin }
attributes: [org, user]
rules:
  - { name: trial, per: user, limit: 100/h, mode: shadow }
  - { name: api, per: [org, user], limit: 2/h }
";

fn ban(rule: &str, key: &str, until: Option<&str>) -> BanData {
    let until = until.map(str::to_owned);
    BanData { rule: rule.into(), key: key.into(), until, ..BanData::default() }
}

fn with(bans: Vec<BanData>) -> Rules {
    let rules: Rules = RULES.parse().unwrap();
    rules.with_data(&Data { bans, ..Data::default() }).unwrap()
}

fn ann() -> Request<'static> {
    Request::empty().attribute("org", "acme").attribute("user", "ann")
}

#[test]
fn a_ban_refuses_until_it_ends_and_charges_nothing() {
    let clock = ManualClock::new(); // noon in London, one o'clock in Berlin
    let rules = with(vec![ban("api", "acme|ann", Some("2026-01-01T13:10:00"))]);
    let limiter = RuleLimiter::builder().clock(&clock).build(rules);
    let decision = limiter.decide_now(&ann());
    assert_eq!((decision.allowed, decision.code, decision.reason), (false, 429, Reason::Banned));
    assert_eq!((decision.rule(), decision.key()), (Some("api"), Some("acme|ann")));
    assert_eq!(decision.retry_after, Some(Duration::from_secs(600)));
    assert_eq!(decision.to_string(), "banned by api: 10min left");
    assert!(limiter.store().is_empty());
    clock.advance(Duration::from_secs(600) - Duration::from_nanos(1));
    assert!(!limiter.decide_now(&ann()).allowed);
    clock.advance(Duration::from_nanos(1));
    assert!(limiter.decide_now(&ann()).allowed && limiter.decide_now(&ann()).allowed);
    assert_eq!(limiter.decide_now(&ann()).reason, Reason::OverLimit);
}

/// Checks that the mode of a rule does not weaken its bans.
#[test]
fn a_ban_is_enforced_by_a_shadow_rule() {
    let limiter = RuleLimiter::new(with(vec![ban("trial", "ann", None)]));
    let decision = limiter.decide_now(&ann());
    assert_eq!((decision.reason, decision.retry_after), (Reason::Banned, None));
    assert!(limiter.decide_now(&Request::empty().attribute("user", "bob")).allowed);
}

#[test]
fn bans_are_replaced_with_the_data() {
    let limiter = RuleLimiter::new(with(vec![ban("api", "acme|ann", None)]));
    assert!(!limiter.decide_now(&ann()).allowed);
    limiter.replace(with(vec![]));
    assert!(limiter.decide_now(&ann()).allowed);
    let rules: Rules = RULES.parse().unwrap();
    for (wrong, message) in [
        (ban("apo", "x", None), "did you mean `api`?"),
        (ban("api", "x", Some("tomorrow")), "no date"),
        (BanData { domain: Some("none".into()), ..ban("api", "x", None) }, "no domain"),
    ] {
        let error = rules.with_data(&Data { bans: vec![wrong], ..Data::default() }).unwrap_err();
        assert_eq!(error.element, "bans[0]");
        assert!(error.message.contains(message), "{error}");
    }
}
