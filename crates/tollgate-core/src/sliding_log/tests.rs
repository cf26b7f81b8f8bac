//! Worked cases of the sliding log.

use super::*;
use crate::Retry;

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

fn at(n: u64) -> Time {
    Time::EPOCH + ms(n)
}

fn log(limit: u64, window: u64) -> SlidingLog {
    SlidingLog::new(limit, ms(window)).unwrap()
}

#[test]
fn an_entry_exactly_one_window_old_is_gone() {
    let log = log(1, 100);
    let mut state = log.fresh(at(0));
    assert!(log.decide(&mut state, at(0), 1).allowed);
    let early = Time::from_nanos(at(100).as_nanos() - 1);
    assert_eq!(log.decide(&mut state, early, 1).retry, Retry::After(Span::from_nanos(1)));
    assert!(log.decide(&mut state, at(100), 1).allowed);
}

#[test]
fn retry_waits_for_as_many_entries_as_the_cost_needs() {
    let log = log(3, 100);
    let mut state = log.fresh(at(0));
    for t in [0, 10, 20] {
        assert!(log.decide(&mut state, at(t), 1).allowed);
    }
    assert_eq!(log.decide(&mut state, at(30), 1).retry, Retry::After(ms(70)));
    assert_eq!(log.decide(&mut state, at(30), 3).retry, Retry::After(ms(90)));
    assert_eq!(log.decide(&mut state, at(30), 4).retry, Retry::Never);
    assert_eq!(log.used(&state, at(30)), 3, "denied requests changed nothing");
}

#[test]
fn entries_of_one_instant_merge_unless_there_is_a_gap() {
    let (merged, apart) = (log(9, 100), log(9, 100).min_gap(ms(1)).unwrap());
    let (mut one, mut two) = (merged.fresh(at(0)), apart.fresh(at(0)));
    for _ in 0..2 {
        merged.charge(&mut one, at(5), 2);
        apart.charge(&mut two, at(5), 2);
    }
    assert_eq!(one.entries().collect::<Vec<_>>(), [(at(5), 4)]);
    assert_eq!(two.entries().collect::<Vec<_>>(), [(at(5), 2), (at(5), 2)]);
    assert_eq!(apart.judge(&two, at(5)).overdrawn, ms(1), "the second is a gap too early");
}

#[test]
fn repeated_refusals_keep_a_counting_log_closed_and_small() {
    let log = log(3, 100).min_gap(ms(1)).unwrap().count_denied();
    let mut state = log.fresh(at(0));
    for t in 0..1000 {
        assert_eq!(log.decide(&mut state, at(t), 1).allowed, t < 3);
        assert!(state.entries().len() <= 5);
    }
    assert_eq!(log.decide(&mut state, at(1000), 1).retry, Retry::After(ms(98)));
}

#[test]
fn a_charge_above_the_limit_can_be_refunded() {
    let log = log(3, 100);
    let mut state = log.fresh(at(0));
    for t in 0..3 {
        log.charge(&mut state, at(t), 1);
    }
    let before = state.clone();
    log.charge(&mut state, at(3), 50);
    assert_eq!(log.judge(&state, at(3)).overdrawn, ms(100));
    log.charge(&mut state, at(3), -50);
    assert_eq!(state, before);
    log.charge(&mut state, at(3), i64::MIN);
    assert_eq!(state, log.fresh(at(3)), "never above full");
}

#[test]
fn a_reservation_is_recorded_when_it_is_due() {
    let log = log(2, 100).min_gap(ms(10)).unwrap();
    let mut state = log.fresh(at(0));
    assert!(log.decide(&mut state, at(0), 1).allowed);
    assert_eq!(log.reserve(&mut state, at(1), 1, ms(50)).wait, ms(9));
    let full = log.reserve(&mut state, at(1), 1, ms(98));
    assert_eq!((full.allowed, full.retry), (false, Retry::After(ms(99))));
    assert_eq!(log.reserve(&mut state, at(1), 1, ms(99)).wait, ms(99));
    assert_eq!(state.entries().map(|(t, _)| t).collect::<Vec<_>>(), [at(0), at(10), at(100)]);
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let log = log(2, 100);
    let mut state = log.fresh(at(500));
    assert!(log.decide(&mut state, at(500), 1).allowed);
    assert!(log.decide(&mut state, at(400), 1).allowed);
    assert_eq!(log.decide(&mut state, at(400), 1).retry, Retry::After(ms(200)));
}

#[test]
fn a_cost_of_zero_leaves_no_entry_and_needs_no_gap() {
    let log = log(1, 100).min_gap(ms(100)).unwrap();
    let mut state = log.fresh(at(0));
    assert!(log.decide(&mut state, at(0), 1).allowed);
    assert!(log.decide(&mut state, at(0), 0).allowed);
    assert_eq!(state.entries().len(), 1);
}

#[test]
fn invalid_parameters_are_refused() {
    assert_eq!(SlidingLog::new(0, ms(1)), Err(InvalidLimit::ZeroAmount));
    assert_eq!(SlidingLog::new(1, Span::ZERO), Err(InvalidLimit::ZeroPeriod));
    assert_eq!(SlidingLog::new(1, Span::MAX), Err(InvalidLimit::PeriodTooLong));
    assert_eq!(SlidingLog::new(u64::MAX, ms(1)), Err(InvalidLimit::AmountTooLarge(u64::MAX)));
    assert_eq!(log(1, 10).min_gap(ms(11)), Err(InvalidLimit::GapAboveWindow));
}
