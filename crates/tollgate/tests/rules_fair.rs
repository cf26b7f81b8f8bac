//! `fair`: under pressure each gets its share, without pressure anyone has it all.

use std::time::Duration;

use tollgate::rules::{Decision, RuleLimiter};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request};

fn limiter(rules: &str, clock: &ManualClock) -> RuleLimiter {
    let rules = rules.parse().unwrap_or_else(|found| panic!("{found}"));
    Limiter::builder().clock(clock).build_rules(rules)
}

fn ask(limiter: &RuleLimiter, org: &str) -> Decision {
    limiter.decide(&Request::new("GET", "/").attribute("org", org))
}

const SHARED: &str = "rules: [{ name: api, limit: 100/s, fair: { by: org } }]";

/// Nine polite ones, 9 a second each, and a greedy one a hundred times as fast, for some seconds: how
/// many of each passed, and how many of the polite ones' were refused.
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
fn the_greedy_one_gets_what_the_polite_ones_leave() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    let (_, at_first, _) = run(&limiter, &clock, 15);
    assert!(at_first <= 9, "{at_first}: only until everybody has a share");
    let (polite, refused, greedy) = run(&limiter, &clock, 20);
    assert_eq!(refused, 0);
    let rest = 20 * 99 - polite;
    assert!(greedy.abs_diff(rest) * 50 <= rest, "{greedy} of {rest}");
    assert_eq!(limiter.fair_tenants()[0].tenants, 10);
}

#[test]
fn without_fairness_the_same_clients_are_harmed() {
    let clock = ManualClock::new();
    let limiter = limiter("rules: [{ name: api, limit: 100/s }]", &clock);
    run(&limiter, &clock, 5);
    let (polite, refused, _) = run(&limiter, &clock, 20);
    assert!(refused > polite, "{refused} refused, {polite} passed");
}

#[test]
fn alone_anybody_has_all_of_it() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    assert_eq!((0..200).filter(|_| ask(&limiter, "greedy").allowed).count(), 100);
    clock.advance(Duration::from_secs(1));
    assert_eq!((0..200).filter(|_| ask(&limiter, "greedy").allowed).count(), 100);
}

#[test]
fn every_counter_is_shared_on_its_own() {
    let clock = ManualClock::new();
    let limiter =
        limiter("rules: [{ name: api, per: path, limit: 10/s, fair: { by: org } }]", &clock);
    let ask = |path: &str, org: &str| {
        limiter.decide(&Request::new("GET", path).attribute("org", org)).allowed
    };
    assert!(ask("/a", "polite"));
    // Of the nine that are left, five are kept for the other.
    assert_eq!((0..20).filter(|_| ask("/a", "greedy")).count(), 4);
    assert_eq!((0..20).filter(|_| ask("/b", "greedy")).count(), 10, "all of the other path");
    assert_eq!((0..20).filter(|_| ask("/a", "polite")).count(), 5);
}

#[test]
fn who_names_nobody_shares_one_share() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    let nobody = || limiter.decide(&Request::new("GET", "/")).allowed;
    assert!(ask(&limiter, "polite").allowed);
    assert_eq!((0..200).filter(|_| nobody()).count(), 49);
    assert_eq!(limiter.fair_tenants()[0].tenants, 2);
}

#[test]
fn looking_claims_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    assert!(ask(&limiter, "polite").allowed);
    for org in 0..50 {
        let about = Request::new("GET", "/").attribute("org", format!("looker-{org}"));
        assert!(limiter.explain(&about).allowed);
    }
    assert_eq!(limiter.fair_tenants()[0].tenants, 1);
    (0..60).for_each(|_| drop(ask(&limiter, "greedy")));
    let explained = limiter.explain(&Request::new("GET", "/").attribute("org", "greedy"));
    assert!(!explained.allowed);
    assert_eq!(explained.rules[0].limits[0].reserve, 50);
}

#[test]
fn places_are_shared_as_well() {
    let rules = "rules: [{ name: api, limit: 20 concurrent, fair: { by: org } }]";
    let clock = ManualClock::new();
    let limiter = limiter(rules, &clock);
    let polite: Vec<Decision> = (0..3).map(|org| ask(&limiter, &format!("polite-{org}"))).collect();
    assert!(polite.iter().all(|decision| decision.allowed));
    let greedy: Vec<Decision> =
        (0..40).map(|_| ask(&limiter, "greedy")).filter(|decision| decision.allowed).collect();
    // Three are taken, and one more is kept for each of the three.
    assert_eq!(greedy.len(), 14);
    for (org, first) in polite.iter().enumerate() {
        let second = ask(&limiter, &format!("polite-{org}"));
        assert!(second.allowed, "within its share of five");
        limiter.release(first, Duration::from_millis(1));
        limiter.release(&second, Duration::from_millis(1));
    }
    // Six are free, and kept for the three: they held two lately, and none now.
    assert!(!ask(&limiter, "greedy").allowed);
    let others: Vec<Decision> =
        (0..6).map(|org| ask(&limiter, &format!("polite-{}", org % 3))).collect();
    assert!(others.iter().all(|decision| decision.allowed));
    others.iter().chain(&greedy).for_each(|decision| limiter.release(decision, Duration::ZERO));
    clock.advance(Duration::from_secs(60));
    let greedy = (0..40).filter(|_| ask(&limiter, "greedy").allowed).count();
    assert_eq!(greedy, 20, "alone again it has all of them");
}

#[test]
fn hostile_tenants_do_not_make_it_grow() {
    let clock = ManualClock::new();
    let limiter = limiter(SHARED, &clock);
    for org in 0..20_000 {
        ask(&limiter, &format!("{org:x}"));
        clock.advance(Duration::from_micros(10));
    }
    assert!(limiter.fair_tenants()[0].tenants <= 1024 + 64);
}

/// However they ask, together they never get more than the limit alone would admit.
#[test]
fn all_together_never_exceed_the_limit() {
    for seed in 0..20_u64 {
        let clock = ManualClock::new();
        let limiter = limiter(SHARED, &clock);
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |below: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below
        };
        let (mut left, mut passed) = (100_000_u64, 0_u64);
        for _ in 0..1_000 {
            let pause = if roll(10) == 0 { roll(400) } else { 0 };
            clock.advance(Duration::from_millis(pause));
            left = (left + 100 * pause).min(100_000);
            if ask(&limiter, &roll(1 + seed).to_string()).allowed {
                assert!(left >= 1_000, "seed {seed}: the {passed}th");
                left -= 1_000;
                passed += 1;
            }
        }
        assert!(passed >= 100, "seed {seed}: {passed}");
    }
}
