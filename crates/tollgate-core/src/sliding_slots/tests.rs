//! Worked cases of the sliding slots.

use super::*;
use crate::Retry;

fn at(ms: u64) -> Time {
    Time::EPOCH + Span::from_millis(ms)
}

/// Returns a limit of ten in four slots of 100 ms.
fn quarters() -> SlidingSlots {
    SlidingSlots::new(10, Span::from_millis(400), 4).unwrap()
}

#[test]
fn spends_expire_one_slot_at_a_time() {
    let slots = quarters();
    let mut state = slots.fresh(at(0));
    for (ms, cost, left) in [(50, 4, 6), (120, 3, 3), (399, 3, 0), (400, 4, 0), (500, 2, 1)] {
        assert_eq!(slots.decide(&mut state, at(ms), cost).remaining, left, "at {ms}");
    }
    assert_eq!(slots.used(&state, at(500)), 9);
    assert_eq!(slots.used(&state, at(899)), 2);
    assert_eq!(slots.full_at(&state), at(900));
    assert_eq!(slots.peek(&state, at(10_000)), slots.peek(&slots.fresh(at(10_000)), at(10_000)));
}

#[test]
fn retry_waits_for_as_many_slots_as_the_cost_needs() {
    let slots = quarters();
    let mut state = slots.fresh(at(0));
    slots.charge(&mut state, at(0), 4);
    slots.charge(&mut state, at(100), 5);
    let retry = |state: &mut _, cost| slots.decide(state, at(150), cost).retry;
    assert_eq!(retry(&mut state, 2), Retry::After(Span::from_millis(250)));
    assert_eq!(retry(&mut state, 6), Retry::After(Span::from_millis(350)));
    assert_eq!(retry(&mut state, 11), Retry::Never);
    assert!(slots.decide(&mut state, at(150), 1).allowed);
}

#[test]
fn a_refund_comes_from_the_newest_slot_first() {
    let slots = quarters();
    let mut state = slots.fresh(at(0));
    slots.charge(&mut state, at(0), 4);
    slots.charge(&mut state, at(100), 5);
    slots.charge(&mut state, at(200), -6);
    assert_eq!(state.entries().collect::<Vec<_>>(), [(at(0), 3)]);
    slots.charge(&mut state, at(200), i64::MIN);
    assert_eq!(slots.used(&state, at(200)), 0, "never above full");
}

#[test]
fn a_reservation_is_spent_in_its_due_slot_and_can_be_cancelled() {
    let slots = quarters();
    let mut state = slots.fresh(at(0));
    assert!(slots.decide(&mut state, at(0), 8).allowed);
    let before = state.clone();
    assert_eq!(slots.reserve(&mut state, at(50), 5, Span::MAX).wait, Span::from_millis(350));
    assert_eq!(slots.decide(&mut state, at(60), 1).retry, Retry::After(Span::from_millis(340)));
    let mut cancelled = state.clone();
    slots.charge(&mut cancelled, at(60), -5);
    assert_eq!(cancelled, before, "as if there had been no reservation");
    assert_eq!(slots.decide(&mut state, at(410), 1).remaining, 4);
    assert_eq!(slots.used(&state, at(799)), 6);
    assert_eq!(slots.used(&state, at(800)), 0);
}

#[test]
fn a_clock_that_goes_back_stays_in_the_newest_slot() {
    let slots = quarters();
    let mut state = slots.fresh(at(0));
    slots.charge(&mut state, at(1050), 9);
    assert!(slots.decide(&mut state, at(100), 1).allowed);
    assert_eq!(slots.decide(&mut state, at(100), 1).retry, Retry::After(Span::from_millis(1300)));
    assert_eq!(state.entries().len(), 1);
}

#[test]
fn invalid_parameters_are_refused() {
    let new =
        |limit, nanos, slots| SlidingSlots::new(limit, Span::from_nanos(nanos), slots).unwrap_err();
    assert_eq!(new(0, 10, 2), InvalidLimit::ZeroAmount);
    assert_eq!(new(1, 0, 2), InvalidLimit::ZeroPeriod);
    assert_eq!(new(1, u64::MAX, 2), InvalidLimit::PeriodTooLong);
    assert_eq!(new(1, 10, 1), InvalidLimit::TooFewSlots(1));
    assert_eq!(new(1, 10_000, 5000), InvalidLimit::TooManySlots(5000));
    assert_eq!(new(1, 10, 3), InvalidLimit::UnevenSlots(3));
    assert_eq!(new(u64::MAX, 10, 2), InvalidLimit::AmountTooLarge(u64::MAX));
}
