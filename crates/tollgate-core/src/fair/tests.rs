//! Shares against a real meter: what is promised is there, whoever is greedy.

use proptest::prelude::*;

use super::*;
use crate::{Algorithm, Meter, MeterState};

/// A limit and the shares of it.
struct Shared {
    meter: Meter,
    state: MeterState,
    fair: Fair,
    shares: FairState,
    now: Time,
    ms: u64,
}

impl Shared {
    fn new(rate: u64, burst: u64) -> Shared {
        let meter = Meter::new(rate, Span::from_secs(1), burst).unwrap();
        let fair = Fair::new(rate, Span::from_secs(1), burst);
        let now = Time::EPOCH + Span::from_secs(1_000);
        Shared { meter, state: meter.fresh(now), fair, shares: FairState::default(), now, ms: 0 }
    }

    /// Whether it passes, and whether its own share covered it.
    fn ask(&mut self, tenant: u64, cost: u64) -> (bool, bool) {
        let claim = self.fair.ask(&mut self.shares, self.now, tenant, cost);
        let mut charged = self.state;
        let verdict =
            self.meter.attempt_leaving(&mut charged, self.now, cost, claim.reserve, Span::ZERO);
        match verdict.allowed {
            true => {
                self.state = charged;
                self.fair.passed(&mut self.shares, self.now, &claim, verdict.remaining);
            }
            false => self.fair.refused(&mut self.shares, &claim),
        }
        (verdict.allowed, claim.covered)
    }
}

fn held(fair: &Fair, state: &FairState, index: usize) -> u128 {
    let share = &state.shares[index];
    (state.gained - share.since).min(fair.most_of(state.shares.len(), share.cost))
}

/// What all shares hold together, by looking at each of them.
fn plain_sum(fair: &Fair, state: &FairState) -> u128 {
    (0..state.shares.len()).map(|index| held(fair, state, index)).sum()
}

const GREEDY: u64 = 77_000;

/// Nine ask every `gap` milliseconds, one every millisecond: who passed how often, and the
/// refusals of the nine.
fn nine_and_one(shared: &mut Shared, gap: u64, seconds: u64) -> (u64, u64, u64) {
    let (mut polite, mut refused, mut greedy) = (0, 0, 0);
    for _ in 0..seconds * 1_000 {
        let at = shared.ms;
        shared.ms += 1;
        for tenant in 0..9 {
            if (at + tenant * 31).is_multiple_of(gap) {
                match shared.ask(1_000 + tenant, 1).0 {
                    true => polite += 1,
                    false => refused += 1,
                }
            }
        }
        greedy += u64::from(shared.ask(GREEDY, 1).0);
        shared.now = shared.now + Span::from_millis(1);
    }
    (polite, refused, greedy)
}

#[test]
fn nine_polite_ones_are_never_refused_and_the_greedy_one_gets_the_rest() {
    // 9.09 a second each of 100, which is below a tenth.
    for burst in [10, 20, 100] {
        let mut shared = Shared::new(100, burst);
        nine_and_one(&mut shared, 110, 15); // until the shares are full
        let (polite, refused, greedy) = nine_and_one(&mut shared, 110, 20);
        assert_eq!(refused, 0, "burst {burst}: {polite} passed");
        let rest = 20 * 100 - polite;
        assert!(greedy.abs_diff(rest) * 50 <= rest, "burst {burst}: {greedy} of {rest}");
    }
}

#[test]
fn alone_it_has_all_of_it() {
    let mut shared = Shared::new(100, 50);
    let mut passed = 0;
    for _ in 0..20_000 {
        passed += u64::from(shared.ask(GREEDY, 1).0);
        shared.now = shared.now + Span::from_micros(500);
    }
    assert_eq!(passed, 50 + 999); // the last asks just before the ten seconds are over
}

#[test]
fn who_leaves_leaves_its_share_to_the_others() {
    let mut shared = Shared::new(100, 100);
    nine_and_one(&mut shared, 110, 5);
    assert_eq!(shared.fair.tenants(&shared.shares, shared.now), 10);
    shared.now = shared.now + Span::from_secs(11);
    assert_eq!(shared.fair.tenants(&shared.shares, shared.now), 0);
    // All of the burst, since nobody else is there.
    let passed = (0..200).filter(|_| shared.ask(GREEDY, 1).0).count();
    assert_eq!(passed, 100);
    let mut passed = 0;
    for _ in 0..2_000 {
        passed += u64::from(shared.ask(GREEDY, 1).0);
        shared.now = shared.now + Span::from_micros(500);
    }
    assert!((99..=100).contains(&passed), "{passed}");
}

#[test]
fn a_large_request_gets_its_turn_beside_many_small_ones() {
    let mut shared = Shared::new(100, 100);
    let mut large = 0;
    for half_ms in 0..40_000_u64 {
        if half_ms % 4_000 == 0 {
            // 20 at once every two seconds, which is a fifth of its half.
            large += u64::from(shared.ask(1_000, 20).0);
        }
        shared.ask(GREEDY, 1);
        shared.now = shared.now + Span::from_micros(500);
    }
    assert!(large >= 9, "{large} of 10");
}

#[test]
fn a_hundred_thousand_tenants_have_only_so_many_shares() {
    let mut shared = Shared::new(1_000, 1_000);
    for tenant in 0..100_000_u64 {
        shared.ask(tenant.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1);
        shared.now = shared.now + Span::from_micros(1);
    }
    assert!(shared.shares.shares.len() <= MAX_SHARES + COMMON_SHARES);
    shared.now = shared.now + Span::from_secs(20);
    shared.ask(GREEDY, 1);
    assert_eq!(shared.shares.shares.len(), 1, "and they are forgotten");
}

proptest! {
    /// What a borrower must leave is what each of the others holds, whoever came, left, was refused or
    /// filled up meanwhile, and however many nodes and shares there are.
    #[test]
    fn the_sum_of_all_shares_is_what_each_of_them_holds(
        rate in 1_u64..300,
        burst in 1_u64..300,
        tenants in prop::sample::select(vec![3_u64, 40, 3_000]),
        steps in prop::collection::vec((any::<u64>(), 0_u64..60, 0_u64..9, 0_u8..16), 1..500),
    ) {
        let mut state = FairState::default();
        let mut now = Time::EPOCH;
        let mut claims = Vec::new();
        for (tenant, wait, cost, what) in steps {
            // Now and then long enough for shares to fill up, or for all to be forgotten.
            let wait = match wait {
                59 => 12_000,
                50..59 => 900,
                wait => wait / 4,
            };
            now = now + Span::from_millis(wait);
            let nodes = if what == 15 { 3 } else { 1 };
            let fair = Fair::new(rate, Span::from_secs(1), burst).among(nodes);
            match (what, claims.len()) {
                (0..=2, 1..) => {
                    let claim: Claim = claims.swap_remove(tenant as usize % claims.len());
                    fair.refused(&mut state, &claim);
                }
                (3..=4, 1..) => {
                    let claim = claims.swap_remove(tenant as usize % claims.len());
                    fair.passed(&mut state, now, &claim, cost * 20);
                }
                _ => {
                    let claim = fair.ask(&mut state, now, 1_000 + tenant % tenants, cost);
                    let index = state.find(claim.tenant).unwrap();
                    let others = plain_sum(&fair, &state) - held(&fair, &state, index);
                    let reserve = (others * u128::from(nodes)).div_ceil(fair.period.into());
                    prop_assert_eq!(u128::from(claim.reserve), if claim.covered { 0 } else { reserve });
                    claims.push(claim);
                }
            }
        }
    }

    /// What a share covers is there, as long as no share had to be stretched; and what is taken from
    /// a share for nothing comes back.
    #[test]
    fn what_is_promised_is_there(
        rate in 1_u64..200,
        burst in 16_u64..200,
        steps in prop::collection::vec((0_u64..16, 0_u64..400, 1_u64..4), 1..300),
    ) {
        let mut shared = Shared::new(rate, burst);
        for (tenant, wait_ms, cost) in steps {
            // Only small pauses for some, so that it comes to refusals.
            let wait = if wait_ms % 3 == 0 { wait_ms } else { wait_ms % 7 };
            shared.now = shared.now + Span::from_millis(wait);
            let (passed, covered) = shared.ask(1_000 + tenant, cost);
            let part = shared.fair.most_of(shared.shares.shares.len(), 0);
            if shared.shares.shares.iter().any(|share| shared.fair.parts(share.cost) > part) {
                break;
            }
            prop_assert!(passed || !covered, "{covered} {passed}");
            let promised = plain_sum(&shared.fair, &shared.shares);
            let mut probe = shared.state;
            // A part of a token is not told apart by the meter's whole tokens.
            let whole = (promised / u128::from(shared.fair.period)) as i64;
            shared.meter.charge(&mut probe, shared.now, whole);
            prop_assert!(shared.meter.judge(&probe, shared.now).overdrawn.is_zero());
        }
    }
}
