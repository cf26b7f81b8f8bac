//! Modes of rules, and changing them while the limiter runs.

mod support;

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rules::envoy::{self, Code, Descriptor, RateLimitRequest};
use tollgate_rules::{Data, Mode, ModeData, Reason, Request, RuleLimiter, Rules};

const RULES: &str = "
domain: shop
defaults: { unmatched: deny }
attributes: [user]
rules:
  - { name: blocked, when: user == 'mallory', then: deny }
  - { name: api, per: user, limit: 1/h }
  - { name: asleep, per: user, limit: 1/h, mode: off }
";

fn mode(rule: &str, mode: &str) -> ModeData {
    ModeData { rule: rule.into(), mode: mode.into(), ..ModeData::default() }
}

fn with(modes: Vec<ModeData>) -> Rules {
    let rules: Rules = RULES.parse().unwrap();
    rules.with_data(&Data { modes, ..Data::default() }).unwrap()
}

fn ask(limiter: &RuleLimiter, user: &str) -> bool {
    limiter.decide_now(&Request::empty().attribute("user", user)).allowed
}

#[test]
fn a_rule_that_is_off_does_not_apply() {
    let limiter = RuleLimiter::new(with(vec![]));
    let decision = limiter.decide_now(&Request::empty().attribute("user", "ann"));
    assert_eq!(decision.limits().map(|limit| limit.rule).collect::<Vec<_>>(), ["api"]);
    let asleep = &support::explain(&limiter, &Request::empty().attribute("user", "ann")).rules[2];
    assert_eq!((asleep.matches, &*asleep.mode), (false, "off"));
    assert_eq!(asleep.why_not.as_deref(), Some("it is switched off"));
}

#[test]
fn a_changed_mode_keeps_the_counters() {
    let limiter = RuleLimiter::new(with(vec![]));
    assert!(ask(&limiter, "ann") && !ask(&limiter, "ann"));
    limiter.replace(with(vec![mode("api", "shadow")]));
    let shadowed = limiter.decide_now(&Request::empty().attribute("user", "ann"));
    assert!(shadowed.allowed && shadowed.shadow_denied());
    assert_eq!(shadowed.limits().next().unwrap().mode, Mode::Shadow);
    let explained = support::explain(&limiter, &Request::empty().attribute("user", "ann"));
    let (mode_now, in_file) = (&explained.rules[1].mode, &explained.rules[1].file_mode);
    assert_eq!((&**mode_now, in_file.as_deref()), ("shadow", Some("enforce")));
    limiter.replace(with(vec![]));
    assert!(!ask(&limiter, "ann"), "the earlier cost still counts");
    assert!(!ask(&limiter, "mallory"));
    limiter.replace(with(vec![mode("blocked", "off"), mode("asleep", "enforce")]));
    assert!(ask(&limiter, "mallory") && !ask(&limiter, "mallory"));
}

/// Checks the kill switch: nothing is refused, even if other modes are set.
#[test]
fn all_rules_can_be_switched_off_at_once() {
    let limiter = RuleLimiter::new(with(vec![mode("*", "off"), mode("api", "enforce")]));
    assert!((0..5).all(|_| ask(&limiter, "ann") && ask(&limiter, "mallory")));
    let unmatched = RuleLimiter::new(
        "{ defaults: { unmatched: deny }, rules: [{ name: a, route: /a, limit: 1/s }] }"
            .parse::<Rules>()
            .unwrap()
            .with_data(&Data { modes: vec![mode("*", "off")], ..Data::default() })
            .unwrap(),
    );
    assert!(
        unmatched.decide_now(&Request::new("GET", "/b")).allowed,
        "unmatched requests pass, too"
    );
    limiter.replace(with(vec![mode("*", "shadow")]));
    assert!(ask(&limiter, "mallory") && ask(&limiter, "mallory"));
    limiter.replace(with(vec![mode("api", "enforce 100%")]));
    assert!(ask(&limiter, "ann") && !ask(&limiter, "ann"));
}

#[test]
fn a_mode_ends_at_its_time() {
    let clock = ManualClock::new(); // noon
    let until = ModeData { until: Some("2026-01-01T12:10:00Z".into()), ..mode("*", "off") };
    let limiter = RuleLimiter::builder().clock(&clock).build(with(vec![until]));
    assert!((0..5).all(|_| ask(&limiter, "ann")));
    clock.advance(Duration::from_secs(600) - Duration::from_nanos(1));
    assert!(ask(&limiter, "mallory"));
    clock.advance(Duration::from_nanos(1));
    assert!(!ask(&limiter, "mallory") && ask(&limiter, "ann") && !ask(&limiter, "ann"));
}

#[test]
fn modes_that_do_not_fit_the_rules_are_errors() {
    let rules: Rules = RULES.parse().unwrap();
    for (wrong, message) in [
        (mode("apo", "off"), "did you mean `api`?"),
        (mode("api", "on"), "use `enforce`, `shadow`, `off`"),
        (mode("api", "enforce 0%"), "no mode"),
        (mode("*", "enforce 101%"), "no mode"),
        (ModeData { domain: Some("shup".into()), ..mode("*", "off") }, "did you mean"),
        (ModeData { until: Some("soon".into()), ..mode("api", "off") }, "no date"),
    ] {
        let error = rules.with_data(&Data { modes: vec![wrong], ..Data::default() }).unwrap_err();
        assert_eq!(error.element, "modes[0]");
        assert!(error.message.contains(message), "{error}");
    }
}

#[test]
fn a_domain_written_for_envoy_can_be_switched_off() {
    let rules: Rules = "
domain: messaging
descriptors: [{ key: to, rate_limit: { unit: day, requests_per_unit: 1 } }]
"
    .parse()
    .unwrap();
    let limiter = RuleLimiter::new(rules.clone());
    let descriptors = [Descriptor::new(&[("to", "2061111111")])];
    let envoy = || {
        support::block_on(envoy::decide(
            &limiter,
            &RateLimitRequest::new("messaging", &descriptors),
        ))
        .unwrap()
        .overall
    };
    let plain = || limiter.decide_now(&Request::empty().attribute("to", "2061111111"));
    assert_eq!((envoy(), envoy()), (Code::Ok, Code::OverLimit));
    assert!(!plain().allowed);
    let data = |wanted: &str| Data { modes: vec![mode("*", wanted)], ..Data::default() };
    limiter.replace(rules.with_data(&data("off")).unwrap());
    assert_eq!(envoy(), Code::Ok);
    assert_eq!((plain().allowed, plain().reason), (true, Reason::Unmatched));
    let error = rules.with_data(&data("shadow")).unwrap_err();
    assert!(error.message.contains("shadow_mode"), "{error}");
    limiter.replace(rules);
    assert_eq!(envoy(), Code::OverLimit);
}
