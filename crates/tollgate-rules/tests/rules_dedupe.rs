//! `dedupe`: a retry under the same id is charged once.

mod support;

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rules::{Reason, Request, RuleLimiter};

fn limiter(rules: &str) -> (RuleLimiter, ManualClock) {
    let clock = ManualClock::new();
    (RuleLimiter::builder().clock(&clock).build(rules.parse().unwrap()), clock)
}

fn order<'r>(user: &'r str, id: &'r str) -> Request<'r> {
    Request::empty().attribute("user", user).header("Idempotency-Key", id)
}

const ORDERS: &str = r#"
attributes: [user]
rules:
  - { name: orders, per: user, limit: 2/h, dedupe: 'header["idempotency-key"]' }
"#;

#[test]
fn a_retry_is_charged_once_for_ten_minutes() {
    let (limiter, clock) = limiter(ORDERS);
    assert!((0..10).all(|_| limiter.decide_now(&order("ann", "one")).allowed));
    assert!(limiter.decide_now(&order("ann", "two")).allowed);
    assert_eq!(limiter.decide_now(&order("ann", "three")).reason, Reason::OverLimit);
    assert!(limiter.decide_now(&order("ann", "one")).allowed, "this id is already charged");
    assert!(
        limiter.decide_now(&order("bob", "one")).allowed,
        "the id of another user is another id"
    );
    clock.advance(Duration::from_secs(600));
    assert_eq!(
        limiter.decide_now(&order("ann", "one")).reason,
        Reason::OverLimit,
        "the id has expired"
    );
}

#[test]
fn a_refused_request_is_not_remembered_and_a_preview_remembers_nothing() {
    let (limiter, clock) = limiter(
        r#"{ attributes: [user], rules: [{ name: orders, per: user, limit: 1/min fixed, dedupe: { by: 'header["idempotency-key"]', for: 1day } }] }"#,
    );
    support::explain(&limiter, &order("ann", "one"));
    assert!(limiter.decide_now(&order("ann", "one")).allowed);
    assert!(!limiter.decide_now(&order("ann", "two")).allowed);
    clock.advance(Duration::from_secs(60));
    let second = limiter.decide_now(&order("ann", "two"));
    assert!(second.allowed && second.limits().count() == 1, "charged now");
    assert!(!limiter.decide_now(&order("ann", "three")).allowed);
    clock.advance(Duration::from_secs(80_000));
    let repeated = support::explain(&limiter, &order("ann", "two"));
    assert!(repeated.rules[0].repeated && repeated.rules[0].limits.is_empty());
}

#[test]
fn without_an_id_everything_is_charged() {
    let (limiter, _) = limiter(ORDERS);
    let ask = || limiter.decide_now(&Request::empty().attribute("user", "ann")).allowed;
    assert_eq!([ask(), ask(), ask()], [true, true, false]);
}

/// Checks that a rule without `dedupe` is charged every time, and one with it once.
#[test]
fn each_rule_recognises_retries_for_itself() {
    let (limiter, _) = limiter(
        r#"
attributes: [user]
rules:
  - { name: all, limit: 5/h }
  - { name: orders, per: user, limit: 10/h, cost: 4, dedupe: 'header["idempotency-key"]' }
  - { name: trial, per: user, limit: 1/h, mode: shadow, dedupe: 'header["idempotency-key"]' }
"#,
    );
    let left = |id| -> Vec<(String, u64)> {
        let decision = limiter.decide_now(&order("ann", id));
        let limits = decision.limits();
        limits.map(|limit| (limit.rule.to_owned(), limit.verdict.remaining)).collect()
    };
    let named = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
        all.iter().map(|(rule, left)| ((*rule).to_owned(), *left)).collect()
    };
    assert_eq!(left("one"), named(&[("all", 4), ("orders", 6), ("trial", 0)]));
    assert_eq!(left("one"), named(&[("all", 3)]));
    assert_eq!(left("two"), named(&[("all", 2), ("orders", 2), ("trial", 0)]));
    let again = limiter.decide_now(&order("ann", "two"));
    assert!(again.shadow_denied(), "the shadow rule refused it, so its id is not remembered");
    assert!(!limiter.decide_now(&order("ann", "three")).allowed);
}

/// Checks that of concurrent requests under one id exactly one is charged.
#[test]
fn concurrent_requests_of_one_id_are_charged_once() {
    let (limiter, _) = limiter(
        r#"{ attributes: [user], rules: [{ name: orders, per: user, limit: 1000/h, dedupe: 'header["idempotency-key"]' }] }"#,
    );
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..250 {
                    assert!(limiter.decide_now(&order("ann", &number.to_string())).allowed);
                }
            });
        }
    });
    let last = limiter.decide_now(&order("ann", "last"));
    assert_eq!(last.tightest().unwrap().verdict.remaining, 1000 - 251);
}

/// Checks that an outcome that counts is counted once for each id.
#[test]
fn outcomes_are_counted_once() {
    let (limiter, _) = limiter(
        r#"
attributes: [user]
rules:
  - name: login
    per: user
    limit: 2/h
    count: response.status == 401
    dedupe: header["idempotency-key"]
"#,
    );
    let try_with = |id: &str, status: i64| {
        let decision = limiter.decide_now(&order("ann", id));
        assert!(decision.allowed);
        support::settle(&decision, &order("ann", id).attribute("response.status", status));
    };
    try_with("one", 200); // does not count, so its id is not remembered
    for _ in 0..5 {
        try_with("one", 401);
    }
    try_with("two", 401);
    assert!(!limiter.decide_now(&order("ann", "three")).allowed);
    assert!(limiter.decide_now(&order("ann", "one")).allowed, "this id is already counted");
}

/// Checks that a request cancelled during its delay is refunded and charged when it is repeated.
#[test]
fn the_id_of_a_cancelled_request_is_not_remembered() {
    let (limiter, _) = limiter(
        r#"{ attributes: [user], rules: [{ name: orders, per: user, limit: 1/s, then: delay up to 10s, dedupe: 'header["idempotency-key"]' }] }"#,
    );
    assert!(limiter.decide_now(&order("ann", "one")).wait.is_zero());
    let held = limiter.decide_now(&order("ann", "two"));
    assert_eq!(held.wait, Duration::from_secs(1));
    support::block_on(held.admission().unwrap().cancel()).unwrap();
    assert_eq!(limiter.decide_now(&order("ann", "two")).wait, Duration::from_secs(1));
    assert!(limiter.decide_now(&order("ann", "two")).wait.is_zero(), "the id is charged now");
}
