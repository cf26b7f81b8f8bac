//! Worked cases of the warm-up.

use super::*;
use crate::Retry;

const SECOND: Span = Span::from_secs(1);

fn at(ms: u64) -> Time {
    Time::EPOCH + Span::from_millis(ms)
}

/// Returns a limit of two a second after four seconds: eight permits saved when cold.
fn two_a_second() -> WarmUp {
    WarmUp::new(2, SECOND, Span::from_secs(4)).unwrap()
}

/// Returns the next free moment, in milliseconds.
fn next_free(state: WarmUpState) -> u64 {
    state.parts().1.0 / 1_000_000
}

#[test]
fn three_at_once_cost_what_three_one_by_one_cost() {
    let limit = two_a_second();
    let (mut at_once, mut one_by_one) = (limit.fresh(at(0)), limit.fresh(at(0)));
    limit.charge(&mut at_once, at(0), 3);
    (0..3).for_each(|_| limit.charge(&mut one_by_one, at(0), 1));
    assert_eq!(at_once, one_by_one);
    assert_eq!(next_free(at_once), 3375);
    limit.charge(&mut at_once, at(0), 1);
    assert_eq!(next_free(at_once), 4000, "the whole warm-up is over: four permits, four seconds");
    limit.charge(&mut at_once, at(0), 5);
    assert_eq!(next_free(at_once), 6500, "warm: half a second each, saved or not");
}

#[test]
fn the_next_request_waits() {
    let limit = two_a_second();
    let mut state = limit.fresh(at(0));
    let first = limit.decide(&mut state, at(0), 1000);
    assert_eq!((first.allowed, first.wait, first.remaining), (true, Span::ZERO, 0));
    let second = limit.decide(&mut state, at(0), 1);
    assert_eq!(second.retry, Retry::After(Span::from_secs(502)));
    assert_eq!(limit.reserve(&mut state, at(0), 1, Span::MAX).wait, Span::from_secs(502));
}

#[test]
fn idle_time_cools_down_to_fresh() {
    let limit = two_a_second();
    let mut state = limit.fresh(at(0));
    limit.charge(&mut state, at(0), 8);
    assert_eq!(limit.full_at(&state), at(10_000));
    limit.charge(&mut state, at(10_000), 0);
    assert_eq!(state, limit.fresh(at(10_000)));
}

#[test]
fn a_refund_returns_what_was_paid() {
    let limit = two_a_second();
    let mut state = limit.fresh(at(0));
    limit.charge(&mut state, at(0), 2);
    let before = state;
    limit.charge(&mut state, at(0), 5);
    limit.charge(&mut state, at(0), -5);
    assert_eq!(state, before);
    limit.charge(&mut state, at(0), i64::MIN);
    assert_eq!(state, limit.fresh(at(0)), "never above full");
}

#[test]
fn a_changed_rate_keeps_the_share_of_cold_and_the_debt() {
    let (slow, fast) = (two_a_second(), WarmUp::new(6, SECOND, Span::from_secs(4)).unwrap());
    let mut state = slow.fresh(at(0));
    slow.charge(&mut state, at(0), 4);
    let carried = fast.carry(&slow, &state, at(0));
    assert_eq!(carried.parts(), state.parts());
    let longer = WarmUp::new(6, SECOND, Span::from_secs(8)).unwrap();
    assert_eq!(
        longer.carry(&slow, &state, at(0)).parts(),
        ((4_000_000_000, 0), (4_000_000_000, 0))
    );
}

#[test]
fn a_rate_of_more_than_one_a_nanosecond_still_limits() {
    let limit = WarmUp::new(8_000_000_000, SECOND, SECOND).unwrap();
    let mut state = limit.fresh(at(0));
    limit.charge(&mut state, at(0), 4_000_000_000);
    assert_eq!(next_free(state), 1000, "warm after the warm-up");
    (0..8).for_each(|_| limit.charge(&mut state, at(0), 1));
    assert_eq!(state.parts().1, (1_000_000_001, 0));
}

#[test]
fn invalid_parameters_are_refused() {
    assert_eq!(WarmUp::new(0, SECOND, SECOND), Err(InvalidLimit::ZeroAmount));
    assert_eq!(WarmUp::new(1, Span::ZERO, SECOND), Err(InvalidLimit::ZeroPeriod));
    assert_eq!(WarmUp::new(1, SECOND, Span::ZERO), Err(InvalidLimit::NoWarmUp));
    assert_eq!(WarmUp::new(1, SECOND, Span::MAX), Err(InvalidLimit::PeriodTooLong));
    assert_eq!(two_a_second().cold_factor(1), Err(InvalidLimit::NoWarmUp));
    assert!(matches!(WarmUp::new(u64::MAX, SECOND, SECOND), Err(InvalidLimit::AmountTooLarge(_))));
}
