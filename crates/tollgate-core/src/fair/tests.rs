//! Shares of a real meter: the promised amount is available, however greedy other tenants are.

use proptest::prelude::*;

use super::*;
use crate::{Algorithm, Meter, MeterState};

/// A limit and its shares.
struct SharedLimit {
    meter: Meter,
    state: MeterState,
    fair: FairShares,
    shares: FairSharesState,
    now: Time,
    ms: u64,
}

impl SharedLimit {
    fn new(rate: u64, burst: u64) -> SharedLimit {
        let meter = Meter::new(rate, Span::from_secs(1), burst).unwrap();
        let fair = FairShares::new(rate, Span::from_secs(1), burst);
        let now = Time::EPOCH + Span::from_secs(1_000);
        SharedLimit {
            meter,
            state: meter.fresh(now),
            fair,
            shares: FairSharesState::default(),
            now,
            ms: 0,
        }
    }

    /// Returns whether the request passes, and whether its own share covered it.
    fn decide(&mut self, tenant: u64, cost: u64) -> (bool, bool) {
        let claim = self.fair.claim(&mut self.shares, self.now, tenant, cost);
        let mut charged = self.state;
        let verdict =
            self.meter.attempt_leaving(&mut charged, self.now, cost, claim.reserve, Span::ZERO);
        match verdict.allowed {
            true => {
                self.state = charged;
                self.fair.confirm(&mut self.shares, self.now, &claim, verdict.remaining);
            }
            false => self.fair.cancel(&mut self.shares, &claim),
        }
        (verdict.allowed, claim.covered)
    }
}

fn balance(fair: &FairShares, state: &FairSharesState, index: usize) -> u128 {
    let share = &state.shares[index];
    (state.gained - share.since).min(fair.max_share(state.shares.len(), share.cost))
}

/// Returns what all shares hold together, by adding them up.
fn plain_sum(fair: &FairShares, state: &FairSharesState) -> u128 {
    (0..state.shares.len()).map(|index| balance(fair, state, index)).sum()
}

const GREEDY: u64 = 77_000;

/// Sends a request of nine tenants every `gap` milliseconds, and of one every millisecond.
///
/// Returns the requests of the nine that passed, those that were refused, and those of the one that passed.
fn nine_and_one(shared: &mut SharedLimit, gap: u64, seconds: u64) -> (u64, u64, u64) {
    let (mut polite, mut refused, mut greedy) = (0, 0, 0);
    for _ in 0..seconds * 1_000 {
        let at = shared.ms;
        shared.ms += 1;
        for tenant in 0..9 {
            if (at + tenant * 31).is_multiple_of(gap) {
                match shared.decide(1_000 + tenant, 1).0 {
                    true => polite += 1,
                    false => refused += 1,
                }
            }
        }
        greedy += u64::from(shared.decide(GREEDY, 1).0);
        shared.now = shared.now + Span::from_millis(1);
    }
    (polite, refused, greedy)
}

#[test]
fn nine_polite_tenants_are_never_refused_and_a_greedy_one_gets_the_rest() {
    // Each sends 9.09 a second of 100, which is below a tenth.
    for burst in [10, 20, 100] {
        let mut shared = SharedLimit::new(100, burst);
        nine_and_one(&mut shared, 110, 15); // until the shares are full
        let (polite, refused, greedy) = nine_and_one(&mut shared, 110, 20);
        assert_eq!(refused, 0, "burst {burst}: {polite} passed");
        let rest = 20 * 100 - polite;
        assert!(greedy.abs_diff(rest) * 50 <= rest, "burst {burst}: {greedy} of {rest}");
    }
}

#[test]
fn a_tenant_that_is_alone_gets_the_whole_limit() {
    let mut shared = SharedLimit::new(100, 50);
    let mut passed = 0;
    for _ in 0..20_000 {
        passed += u64::from(shared.decide(GREEDY, 1).0);
        shared.now = shared.now + Span::from_micros(500);
    }
    assert_eq!(passed, 50 + 999); // the last request comes just before the ten seconds are over
}

#[test]
fn the_share_of_an_idle_tenant_goes_to_the_others() {
    let mut shared = SharedLimit::new(100, 100);
    nine_and_one(&mut shared, 110, 5);
    assert_eq!(shared.fair.tenants(&shared.shares, shared.now), 10);
    shared.now = shared.now + Span::from_secs(11);
    assert_eq!(shared.fair.tenants(&shared.shares, shared.now), 0);
    // The whole burst, since no other tenant is active.
    let passed = (0..200).filter(|_| shared.decide(GREEDY, 1).0).count();
    assert_eq!(passed, 100);
    let mut passed = 0;
    for _ in 0..2_000 {
        passed += u64::from(shared.decide(GREEDY, 1).0);
        shared.now = shared.now + Span::from_micros(500);
    }
    assert!((99..=100).contains(&passed), "{passed}");
}

#[test]
fn a_large_request_gets_its_turn_beside_many_small_ones() {
    let mut shared = SharedLimit::new(100, 100);
    let mut large = 0;
    for half_ms in 0..40_000_u64 {
        if half_ms % 4_000 == 0 {
            // 20 at once every two seconds, which is a fifth of its half.
            large += u64::from(shared.decide(1_000, 20).0);
        }
        shared.decide(GREEDY, 1);
        shared.now = shared.now + Span::from_micros(500);
    }
    assert!(large >= 9, "{large} of 10");
}

#[test]
fn the_number_of_shares_is_bounded() {
    let mut shared = SharedLimit::new(1_000, 1_000);
    for tenant in 0..100_000_u64 {
        shared.decide(tenant.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1);
        shared.now = shared.now + Span::from_micros(1);
    }
    assert!(shared.shares.shares.len() <= MAX_SHARES + COMMON_SHARES);
    shared.now = shared.now + Span::from_secs(20);
    shared.decide(GREEDY, 1);
    assert_eq!(shared.shares.shares.len(), 1, "and they are forgotten");
}

proptest! {
    /// A borrower must leave what each of the others holds, in any history and with any number of nodes.
    #[test]
    fn the_sum_of_all_shares_is_what_each_of_them_holds(
        rate in 1_u64..300,
        burst in 1_u64..300,
        tenants in prop::sample::select(vec![3_u64, 40, 3_000]),
        steps in prop::collection::vec((any::<u64>(), 0_u64..60, 0_u64..9, 0_u8..16), 1..500),
    ) {
        let mut state = FairSharesState::default();
        let mut now = Time::EPOCH;
        let mut claims = Vec::new();
        for (tenant, wait, cost, what) in steps {
            // Now and then the wait is long enough for shares to fill up, or for all to be forgotten.
            let wait = match wait {
                59 => 12_000,
                50..59 => 900,
                wait => wait / 4,
            };
            now = now + Span::from_millis(wait);
            let nodes = if what == 15 { 3 } else { 1 };
            let fair = FairShares::new(rate, Span::from_secs(1), burst).across_nodes(nodes);
            match (what, claims.len()) {
                (0..=2, 1..) => {
                    let claim: Claim = claims.swap_remove(tenant as usize % claims.len());
                    fair.cancel(&mut state, &claim);
                }
                (3..=4, 1..) => {
                    let claim = claims.swap_remove(tenant as usize % claims.len());
                    fair.confirm(&mut state, now, &claim, cost * 20);
                }
                _ => {
                    let claim = fair.claim(&mut state, now, 1_000 + tenant % tenants, cost);
                    let index = state.find(claim.tenant).unwrap();
                    let others = plain_sum(&fair, &state) - balance(&fair, &state, index);
                    let reserve = (others * u128::from(nodes)).div_ceil(fair.period.into());
                    prop_assert_eq!(u128::from(claim.reserve), if claim.covered { 0 } else { reserve });
                    claims.push(claim);
                }
            }
        }
    }

    /// A covered request passes, as long as no share had to be stretched; a refused one gets its
    /// claim back.
    #[test]
    fn a_covered_request_passes(
        rate in 1_u64..200,
        burst in 16_u64..200,
        steps in prop::collection::vec((0_u64..16, 0_u64..400, 1_u64..4), 1..300),
    ) {
        let mut shared = SharedLimit::new(rate, burst);
        for (tenant, wait_ms, cost) in steps {
            // Some pauses are small, so that requests are refused.
            let wait = if wait_ms % 3 == 0 { wait_ms } else { wait_ms % 7 };
            shared.now = shared.now + Span::from_millis(wait);
            let (passed, covered) = shared.decide(1_000 + tenant, cost);
            let part = shared.fair.max_share(shared.shares.shares.len(), 0);
            if shared.shares.shares.iter().any(|share| shared.fair.parts(share.cost) > part) {
                break;
            }
            prop_assert!(passed || !covered, "{covered} {passed}");
            let promised = plain_sum(&shared.fair, &shared.shares);
            let mut probe = shared.state;
            // The meter counts whole tokens, so a part of a token is dropped.
            let whole = (promised / u128::from(shared.fair.period)) as i64;
            shared.meter.charge(&mut probe, shared.now, whole);
            prop_assert!(shared.meter.judge(&probe, shared.now).overdrawn.is_zero());
        }
    }
}
