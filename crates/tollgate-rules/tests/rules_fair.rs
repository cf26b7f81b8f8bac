//! `fair`: tenants share a busy limit, and a single tenant may use all of it.

mod support;

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate_rules::{Decision, Request, RuleLimiter};

fn limiter(rules: &str, clock: &ManualClock) -> RuleLimiter {
    let rules = rules.parse().unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    RuleLimiter::builder().clock(clock).build(rules)
}

fn ask(limiter: &RuleLimiter, org: &str) -> Decision {
    limiter.decide_now(&Request::new("GET", "/").attribute("org", org))
}

const SHARED: &str = "attributes: [org]\nrules: [{ name: api, limit: 100/s, fair: { by: org } }]";

/// Simulates nine polite tenants, 9 requests a second each, and a greedy one, a hundred times as fast.
///
/// Returns the allowed and the refused requests of the polite tenants, and the allowed ones of the
/// greedy tenant.
fn run(limiter: &RuleLimiter, clock: &ManualClock, seconds: u64) -> (u64, u64, u64) {
    let (mut polite, mut refused, mut greedy) = (0, 0, 0);
    for ms in 0..seconds * 990 {
        for org in 0..9_u64 {
            if (ms + org * 12) % 110 == 0 {
                match ask(limiter, &format!("polite-{org}")).allowed {
                    true => polite += 1,
                    false => refused += 1,
                }
            }
        }
        greedy += u64::from(ask(limiter, "greedy").allowed);
        clock.advance(Duration::from_millis(1));
    }
    (polite, refused, greedy)
}

#[test]
fn a_greedy_tenant_gets_the_unused_share_of_polite_ones() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    let (_, at_first, _) = run(&limiter, &clock, 15);
    assert!(at_first <= 9, "{at_first}: only until each tenant has a share");
    let (polite, refused, greedy) = run(&limiter, &clock, 20);
    assert_eq!(refused, 0);
    let rest = 20 * 99 - polite;
    assert!(greedy.abs_diff(rest) * 50 <= rest, "{greedy} of {rest}");
    assert_eq!(limiter.status().fair_tenants()[0].tenants, 10);
}

#[test]
fn without_fair_the_polite_tenants_are_refused() {
    let clock = ManualClock::new();
    let limiter = limiter("rules: [{ name: api, limit: 100/s }]", &clock);
    run(&limiter, &clock, 5);
    let (polite, refused, _) = run(&limiter, &clock, 20);
    assert!(refused > polite, "{refused} refused, {polite} passed");
}

#[test]
fn a_single_tenant_may_use_the_whole_limit() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    assert_eq!((0..200).filter(|_| ask(&limiter, "greedy").allowed).count(), 100);
    clock.advance(Duration::from_secs(1));
    assert_eq!((0..200).filter(|_| ask(&limiter, "greedy").allowed).count(), 100);
}

#[test]
fn every_key_has_its_own_shares() {
    let clock = ManualClock::new();
    let limiter = limiter(
        "attributes: [org]\nrules: [{ name: api, per: path, limit: 10/s, fair: { by: org } }]",
        &clock,
    );
    let ask = |path: &str, org: &str| {
        limiter.decide_now(&Request::new("GET", path).attribute("org", org)).allowed
    };
    assert!(ask("/a", "polite"));
    // Of the nine remaining, five are reserved for the polite tenant.
    assert_eq!((0..20).filter(|_| ask("/a", "greedy")).count(), 4);
    assert_eq!((0..20).filter(|_| ask("/b", "greedy")).count(), 10, "all of the other path");
    assert_eq!((0..20).filter(|_| ask("/a", "polite")).count(), 5);
}

#[test]
fn requests_without_a_tenant_share_one_share() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    let without_tenant = || limiter.decide_now(&Request::new("GET", "/")).allowed;
    assert!(ask(&limiter, "polite").allowed);
    assert_eq!((0..200).filter(|_| without_tenant()).count(), 49);
    assert_eq!(limiter.status().fair_tenants()[0].tenants, 2);
}

#[test]
fn explaining_claims_no_share() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    assert!(ask(&limiter, "polite").allowed);
    for org in 0..50 {
        let request = Request::new("GET", "/").attribute("org", format!("explained-{org}"));
        assert!(support::explain(&limiter, &request).allowed);
    }
    assert_eq!(limiter.status().fair_tenants()[0].tenants, 1);
    (0..60).for_each(|_| drop(ask(&limiter, "greedy")));
    let explained =
        support::explain(&limiter, &Request::new("GET", "/").attribute("org", "greedy"));
    assert!(!explained.allowed);
    assert_eq!(explained.rules[0].limits[0].reserve, 50);
}

#[test]
fn concurrency_permits_are_shared() {
    let rules =
        "attributes: [org]\nrules: [{ name: api, limit: 20 concurrent, fair: { by: org } }]";
    let clock = ManualClock::new();
    let limiter = limiter(rules, &clock);
    let polite: Vec<Decision> = (0..3).map(|org| ask(&limiter, &format!("polite-{org}"))).collect();
    assert!(polite.iter().all(|decision| decision.allowed));
    let greedy: Vec<Decision> =
        (0..40).map(|_| ask(&limiter, "greedy")).filter(|decision| decision.allowed).collect();
    // Three permits are in use, and one more is reserved for each of these tenants.
    assert_eq!(greedy.len(), 14);
    for (org, first) in polite.iter().enumerate() {
        let second = ask(&limiter, &format!("polite-{org}"));
        assert!(second.allowed, "within its share of five");
        support::release(first, Duration::from_millis(1));
        support::release(&second, Duration::from_millis(1));
    }
    // Six permits are free and reserved: each of the three tenants had two lately and has none now.
    assert!(!ask(&limiter, "greedy").allowed);
    let others: Vec<Decision> =
        (0..6).map(|org| ask(&limiter, &format!("polite-{}", org % 3))).collect();
    assert!(others.iter().all(|decision| decision.allowed));
    others.iter().chain(&greedy).for_each(|decision| support::release(decision, Duration::ZERO));
    clock.advance(Duration::from_secs(60));
    let greedy: Vec<Decision> =
        (0..40).map(|_| ask(&limiter, "greedy")).filter(|decision| decision.allowed).collect();
    assert_eq!(greedy.len(), 20, "a single tenant may use all permits again");
}

#[test]
fn the_number_of_tenants_is_bounded() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    for org in 0..20_000 {
        ask(&limiter, &format!("{org:x}"));
        clock.advance(Duration::from_micros(10));
    }
    assert!(limiter.status().fair_tenants()[0].tenants <= 1024 + 64);
}

/// Checks, for random arrivals, that all tenants together never exceed the limit.
#[test]
fn tenants_together_never_exceed_the_limit() {
    for seed in 0..20_u64 {
        let clock = ManualClock::new();
        let limiter = limiter(SHARED, &clock);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut left, mut passed) = (100_000_u64, 0_u64);
        for _ in 0..1_000 {
            let pause = if random(10) == 0 { random(400) } else { 0 };
            clock.advance(Duration::from_millis(pause));
            left = (left + 100 * pause).min(100_000);
            if ask(&limiter, &random(1 + seed).to_string()).allowed {
                assert!(left >= 1_000, "seed {seed}: the {passed}th");
                left -= 1_000;
                passed += 1;
            }
        }
        assert!(passed >= 100, "seed {seed}: {passed}");
    }
}
