//! `dedupe`: a retry under the same id is charged once.
#![cfg(feature = "rules")]

use std::time::Duration;

use tollgate::rules::{Reason, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request};

fn limiter(rules: &str) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::new();
    (Limiter::builder().clock(&clock).build_rules(rules.parse().unwrap()), clock)
}

fn of<'r>(user: &'r str, id: &'r str) -> Request<'r> {
    Request::empty().attribute("user", user).header("Idempotency-Key", id)
}

const ORDERS: &str = r#"
rules:
  - { name: orders, per: user, limit: 2/h, dedupe: 'header["idempotency-key"]' }
"#;

#[test]
fn a_retry_is_charged_once_for_ten_minutes() {
    let (limiter, clock) = limiter(ORDERS);
    assert!((0..10).all(|_| limiter.decide(&of("ann", "one")).allowed));
    assert!(limiter.decide(&of("ann", "two")).allowed);
    assert_eq!(limiter.decide(&of("ann", "three")).reason, Reason::OverLimit);
    assert!(limiter.decide(&of("ann", "one")).allowed, "it was paid for");
    assert!(limiter.decide(&of("bob", "one")).allowed, "somebody else's id is another");
    clock.advance(Duration::from_secs(600));
    assert_eq!(limiter.decide(&of("ann", "one")).reason, Reason::OverLimit, "forgotten");
}

#[test]
fn a_refused_request_is_not_remembered_and_a_preview_remembers_nothing() {
    let (limiter, clock) = limiter(
        r#"rules: [{ name: orders, per: user, limit: 1/min fixed, dedupe: { by: 'header["idempotency-key"]', for: 1day } }]"#,
    );
    limiter.explain(&of("ann", "one"));
    assert!(limiter.decide(&of("ann", "one")).allowed);
    assert!(!limiter.decide(&of("ann", "two")).allowed);
    clock.advance(Duration::from_secs(60));
    let second = limiter.decide(&of("ann", "two"));
    assert!(second.allowed && second.limits().count() == 1, "charged now");
    assert!(!limiter.decide(&of("ann", "three")).allowed);
    clock.advance(Duration::from_secs(80_000));
    let repeated = limiter.explain(&of("ann", "two"));
    assert!(repeated.rules[0].repeated && repeated.rules[0].limits.is_empty());
}

#[test]
fn without_an_id_everything_is_charged() {
    let (limiter, _) = limiter(ORDERS);
    let ask = || limiter.decide(&Request::empty().attribute("user", "ann")).allowed;
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
}

/// Rules beside it are charged every time; what it costs is charged once.
#[test]
fn each_rule_recognises_retries_for_itself() {
    let (limiter, _) = limiter(
        r#"
rules:
  - { name: all, limit: 5/h }
  - { name: orders, per: user, limit: 10/h, cost: 4, dedupe: 'header["idempotency-key"]' }
  - { name: trial, per: user, limit: 1/h, mode: shadow, dedupe: 'header["idempotency-key"]' }
"#,
    );
    let left = |id| -> Vec<(String, u64)> {
        let decision = limiter.decide(&of("ann", id));
        let limits = decision.limits();
        limits.map(|limit| (limit.rule.to_owned(), limit.verdict.remaining)).collect()
    };
    let named = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
        all.iter().map(|(rule, left)| ((*rule).to_owned(), *left)).collect()
    };
    assert_eq!(left("one"), named(&[("all", 4), ("orders", 6), ("trial", 0)]));
    assert_eq!(left("one"), named(&[("all", 3)]));
    assert_eq!(left("two"), named(&[("all", 2), ("orders", 2), ("trial", 0)]));
    let again = limiter.decide(&of("ann", "two"));
    assert!(again.shadow_denied(), "in shadow it was refused, so it is not remembered");
    assert!(!limiter.decide(&of("ann", "three")).allowed);
}

/// Of two that come at the same time one is charged, whoever is first.
#[test]
fn equal_ids_at_the_same_time_are_charged_once() {
    let (limiter, _) = limiter(
        r#"rules: [{ name: orders, per: user, limit: 1000/h, dedupe: 'header["idempotency-key"]' }]"#,
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..250 {
                    assert!(limiter.decide(&of("ann", &number.to_string())).allowed);
                }
            });
        }
    });
    let last = limiter.decide(&of("ann", "last"));
    assert_eq!(last.tightest().unwrap().verdict.remaining, 1000 - 251);
}

/// An outcome that counts is counted once under its id.
#[test]
fn outcomes_are_counted_once() {
    let (limiter, _) = limiter(
        r#"
rules:
  - name: login
    per: user
    limit: 2/h
    count: response.status == 401
    dedupe: header["idempotency-key"]
"#,
    );
    let try_with = |id: &str, status: i64| {
        let decision = limiter.decide(&of("ann", id));
        assert!(decision.allowed);
        limiter.settle(&decision, &of("ann", id).attribute("response.status", status));
    };
    try_with("one", 200); // does not count, so it is not remembered either
    for _ in 0..5 {
        try_with("one", 401);
    }
    try_with("two", 401);
    assert!(!limiter.decide(&of("ann", "three")).allowed);
    assert!(limiter.decide(&of("ann", "one")).allowed, "it was counted before");
}

/// Whoever leaves while held back has paid nothing, and pays when they come again.
#[test]
fn a_request_that_is_given_back_is_forgotten() {
    let (limiter, _) = limiter(
        r#"rules: [{ name: orders, per: user, limit: 1/s, then: delay up to 10s, dedupe: 'header["idempotency-key"]' }]"#,
    );
    assert!(limiter.decide(&of("ann", "one")).wait.is_zero());
    let held = limiter.decide(&of("ann", "two"));
    assert_eq!(held.wait, Duration::from_secs(1));
    let mut given = std::pin::pin!(limiter.give_back(&held));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(given.as_mut().poll(&mut context).is_ready());
    assert_eq!(limiter.decide(&of("ann", "two")).wait, Duration::from_secs(1));
    assert!(limiter.decide(&of("ann", "two")).wait.is_zero(), "and now it has");
}
