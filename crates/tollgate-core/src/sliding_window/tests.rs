//! Worked cases of the sliding window, and regressions.

use super::*;
use crate::Retry;

const MINUTE: Span = Span::from_secs(60);

fn at(secs: u64) -> Time {
    Time::from_nanos(secs * 1_000_000_000)
}

fn window(limit: u64) -> SlidingWindow {
    SlidingWindow::new(limit, MINUTE).unwrap()
}

#[test]
fn worked_case() {
    // Ten in the last minute, six so far, twenty seconds in: 10 * 40/60 + 6 = 12.67 > 10.
    let window = window(10);
    let mut state = SlidingWindowState::from_parts(at(60), 10, 6);
    assert_eq!(window.used(&state, at(80)), 12);
    let denied = window.decide(&mut state, at(80), 1);
    // 10 * left / 60 must fall below 4: just under 24 s left of the minute.
    let exactly = Span::from_secs(16) + Span::from_nanos(1);
    assert_eq!((denied.remaining, denied.retry), (0, Retry::After(exactly)));
    assert!(!window.decide(&mut state, at(96), 1).allowed);
    assert!(window.decide(&mut state, at(96) + Span::from_nanos(1), 1).allowed);
}

#[test]
fn whole_requests_count() {
    let window = window(4);
    let mut state = window.fresh(at(30));
    assert!(window.decide(&mut state, at(30), 4).allowed);
    assert!(!window.decide(&mut state, at(60), 1).allowed); // all four of the last minute count
    assert!(window.decide(&mut state, at(75), 1).allowed); // three do
    assert!(!window.decide(&mut state, at(75), 1).allowed);
    assert!(window.decide(&mut state, at(75) + Span::from_nanos(1), 1).allowed); // 2.99…
    assert_eq!(state.parts(), (at(60), 4, 2));
}

#[test]
fn a_retry_may_lie_in_the_next_window() {
    let window = window(4);
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), 4).allowed);
    // Three may count: the share of four falls below four right after the minute.
    let verdict = window.decide(&mut state, at(30), 1);
    assert_eq!(verdict.retry, Retry::After(Span::from_secs(30) + Span::from_nanos(1)));
    // None may count: the share falls below one three quarters into the next minute.
    let verdict = window.decide(&mut state, at(30), 4);
    assert_eq!(verdict.retry, Retry::After(Span::from_secs(75) + Span::from_nanos(1)));
    assert_eq!(verdict.reset_after, verdict.retry_after().unwrap());
    assert_eq!(window.decide(&mut state, at(30), 5).retry, Retry::Never);
}

#[test]
fn the_full_time_is_exact_to_the_nanosecond() {
    let window = window(4);
    let mut state = window.fresh(at(0));
    assert_eq!(window.full_at(&state), Time::EPOCH);
    window.charge(&mut state, at(10), 4);
    assert_eq!(window.full_at(&state), at(105) + Span::from_nanos(1));
    assert_eq!(window.used(&state, at(105)), 1);
    assert_eq!(window.used(&state, window.full_at(&state)), 0);
    // Two idle windows later nothing is left, and the windows are aligned again.
    window.charge(&mut state, at(60 * 77 + 5), 1);
    assert_eq!(state.parts(), (at(60 * 77), 0, 1));
}

#[test]
fn reserving_ahead_counts_from_now() {
    let window = window(10);
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), 10).allowed);
    assert!(!window.reserve(&mut state, at(0), 5, MINUTE).allowed);
    let verdict = window.reserve(&mut state, at(0), 5, Span::from_secs(90));
    assert!(verdict.allowed);
    // The share of fifteen of this minute falls below eleven 16 s into the next.
    assert_eq!(verdict.wait, Span::from_secs(76) + Span::from_nanos(1));
}

#[test]
fn refunds_take_from_this_window_first() {
    let window = window(10);
    let mut state = SlidingWindowState::from_parts(at(60), 8, 3);
    window.charge(&mut state, at(90), -5);
    assert_eq!(state.parts(), (at(60), 6, 0));
    window.charge(&mut state, at(90), i64::MIN);
    assert_eq!(window.peek(&state, at(90)).remaining, 10);
    assert!(!window.decide(&mut state, at(90), 11).allowed);
}

#[test]
fn refused_requests_can_count() {
    let window = window(2).count_denied();
    let mut state = window.fresh(at(0));
    for second in 0..60 {
        assert_eq!(window.decide(&mut state, at(second), 1).allowed, second < 2);
    }
    // After sixty requests, steady retries do not pass again.
    assert!(!window.decide(&mut state, at(110), 1).allowed);
    assert!(!window.reserve(&mut state, at(110), 1, Span::MAX).allowed);
    assert_eq!(state.parts(), (at(60), 60, 2));
}

#[test]
fn a_clock_that_goes_back_gives_nothing() {
    let window = window(2);
    let mut state = window.fresh(at(600));
    assert!(window.decide(&mut state, at(600), 2).allowed);
    assert!(!window.decide(&mut state, at(100), 1).allowed);
    assert!(!window.decide(&mut state, at(600), 1).allowed);
    assert!(window.decide(&mut state, at(690), 1).allowed);
}

#[test]
fn invalid_parameters_are_refused() {
    let refused = |limit, length| SlidingWindow::new(limit, length).unwrap_err();
    assert_eq!(refused(0, MINUTE), InvalidLimit::ZeroAmount);
    assert_eq!(refused((1 << 62) + 1, MINUTE), InvalidLimit::AmountTooLarge((1 << 62) + 1));
    assert_eq!(refused(1, Span::ZERO), InvalidLimit::ZeroPeriod);
    assert_eq!(refused(1, Span::MAX), InvalidLimit::PeriodTooLong);
}

#[test]
fn large_counts_do_not_overflow() {
    let window = SlidingWindow::new(MAX_AMOUNT, MAX_FILL).unwrap();
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), MAX_AMOUNT).allowed);
    let half = Time::from_nanos(MAX_FILL.as_nanos() + MAX_FILL.as_nanos() / 2);
    assert_eq!(window.used(&state, half), MAX_AMOUNT / 2);
    window.charge(&mut state, half, i64::MAX);
    window.charge(&mut state, half, i64::MAX);
    assert_eq!(window.peek(&state, half).remaining, 0);
}
