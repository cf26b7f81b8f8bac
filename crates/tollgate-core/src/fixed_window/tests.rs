//! Worked cases of the fixed window, and regressions.

use super::*;
use crate::{Carry, Retry};

const TEN: Span = Span::from_secs(10);

fn at(secs: u64) -> Time {
    Time::from_nanos(secs.saturating_mul(1_000_000_000))
}

fn after(secs: u64) -> Retry {
    Retry::After(Span::from_secs(secs))
}

fn aligned(limit: u64) -> FixedWindow {
    FixedWindow::new(limit, Window::epoch(TEN)).unwrap()
}

fn first_hit(limit: u64) -> FixedWindow {
    FixedWindow::new(limit, Window::FirstHit { length: TEN }).unwrap()
}

/// A calendar of periods of 30 and 31 seconds in turn.
#[derive(Debug)]
struct Months;

impl Calendar for Months {
    fn period_end(&self, now: Time) -> Time {
        let secs = now.as_nanos() / 1_000_000_000;
        let (pair, into) = (secs / 61 * 61, secs % 61);
        at(pair + if into < 30 { 30 } else { 61 })
    }

    fn longest(&self) -> Span {
        Span::from_secs(31)
    }
}

fn months(limit: u64) -> FixedWindow {
    FixedWindow::new(limit, Window::Calendar(Arc::new(Months))).unwrap()
}

#[test]
fn aligned_windows() {
    let window = aligned(2);
    let mut state = window.fresh(at(1005));
    assert!(window.decide(&mut state, at(1005), 2).allowed);
    let denied = window.decide(&mut state, at(1009), 1);
    assert_eq!((denied.retry, denied.remaining, denied.limit), (after(1), 0, 2));
    assert_eq!(denied.reset_after, Span::from_secs(1));
    assert!(window.decide(&mut state, at(1010), 2).allowed);
    assert_eq!(window.decide(&mut state, at(1010), 3).retry, Retry::Never);
    // A phase shifts the bounds, whichever side of now it lies on.
    for phase in [3, 4003] {
        let layout = Window::Aligned { length: TEN, phase: at(phase) };
        let window = FixedWindow::new(1, layout).unwrap();
        let mut state = window.fresh(at(1005));
        assert!(window.decide(&mut state, at(1005), 1).allowed);
        assert_eq!(window.decide(&mut state, at(1005), 1).retry, after(8));
    }
}

#[test]
fn windows_from_the_first_hit() {
    let window = first_hit(2);
    let mut state = window.fresh(at(1000));
    assert!(window.decide(&mut state, at(1005), 1).allowed);
    assert!(window.decide(&mut state, at(1014), 1).allowed);
    assert_eq!(window.decide(&mut state, at(1014), 1).retry, after(1));
    // The next request opens a window, not the end of the last one.
    assert!(window.decide(&mut state, at(1027), 2).allowed);
    assert_eq!(window.decide(&mut state, at(1030), 1).retry, after(7));
}

#[test]
fn a_refunded_window_is_not_open() {
    let window = first_hit(2);
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), 2).allowed);
    window.charge(&mut state, at(4), -2);
    assert_eq!(window.full_at(&state), Time::EPOCH);
    assert!(window.decide(&mut state, at(5), 2).allowed);
    assert_eq!(window.decide(&mut state, at(5), 1).retry, after(10));
}

#[test]
fn calendar_windows() {
    let window = months(3);
    assert_eq!(window.fill_time(), Span::from_secs(31));
    let mut state = window.fresh(at(29));
    assert!(window.decide(&mut state, at(29), 3).allowed);
    assert_eq!(window.decide(&mut state, at(29), 1).retry, after(1));
    assert!(window.decide(&mut state, at(30), 3).allowed);
    assert_eq!(window.decide(&mut state, at(30), 1).retry, after(31));
    // The windows that follow pay the debt, however long they are.
    window.charge(&mut state, at(30), 7);
    assert_eq!(window.decide(&mut state, at(30), 1).retry, after(31 + 30 + 31));
    assert_eq!(window.full_at(&state), at(30 + 31 + 30 + 31 + 30));
    assert_eq!(window.used(&state, at(61)), 7);
    assert_eq!(window.used(&state, at(91)), 4);
    assert_eq!(window.used(&state, at(122)), 1);
    assert_eq!(window.used(&state, at(152)), 0);
}

#[test]
fn debt_on_a_calendar_is_bounded() {
    let window = months(1);
    let mut state = window.fresh(at(0));
    window.charge(&mut state, at(0), i64::MAX);
    assert_eq!(state.parts().1, MAX_PERIODS);
    assert_eq!(window.full_at(&state), Time::MAX);
    assert!(!window.decide(&mut state, at(0), 1).allowed);
    assert!(!window.reserve(&mut state, at(0), 1, Span::from_secs(1 << 33)).allowed);
    assert_eq!(window.used(&state, at(61 * 499)), 2);
    // The last period of the debt ends like any other.
    assert_eq!(window.used(&state, at(61 * 499 + 30)), 1);
    assert_eq!(window.decide(&mut state, at(61 * 499 + 30), 1).retry, after(31));
    assert_eq!(window.used(&state, at(61 * 500)), 0);
    assert_eq!(window.used(&state, Time::MAX), 0);
}

#[test]
fn debt_is_paid_by_later_windows() {
    for window in [aligned(10), first_hit(10)] {
        let mut state = window.fresh(at(0));
        window.charge(&mut state, at(0), 25);
        let judgement = window.peek(&state, at(0));
        assert_eq!((judgement.overdrawn, judgement.remaining), (Span::from_secs(20), 0));
        assert_eq!(judgement.reset_after, Span::from_secs(30));
        assert_eq!(window.decide(&mut state, at(3), 5).retry, after(17));
        assert_eq!(window.decide(&mut state, at(3), 6).retry, after(27));
        assert_eq!(
            [9, 10, 19, 20, 29, 30].map(|now| window.used(&state, at(now))),
            [25, 15, 15, 5, 5, 0]
        );
    }
}

#[test]
fn reserving_ahead() {
    let window = aligned(10);
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), 8).allowed);
    assert!(!window.reserve(&mut state, at(4), 5, Span::from_secs(5)).allowed);
    let verdict = window.reserve(&mut state, at(4), 5, Span::from_secs(6));
    assert_eq!((verdict.allowed, verdict.wait), (true, Span::from_secs(6)));
    assert_eq!(window.peek(&state, at(10)).remaining, 7);
    // More than the limit needs the option, and never passes at once.
    assert_eq!(window.reserve(&mut state, at(10), 11, Span::MAX).retry, Retry::Never);
    let across = window.reserve_across_windows();
    let verdict = across.reserve(&mut state, at(10), 20, Span::MAX);
    assert_eq!((verdict.allowed, verdict.wait), (true, Span::from_secs(20)));
    assert_eq!(across.decide(&mut state, at(10), 11).retry, Retry::Never);
    assert!(!across.reserve(&mut state, at(10), u64::MAX, Span::MAX).allowed);
}

#[test]
fn counted_refusals_fill_the_window_but_not_the_next() {
    let window = aligned(10).count_denied();
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), 7).allowed);
    for _ in 0..5 {
        assert_eq!(window.decide(&mut state, at(1), 4).retry, after(9));
    }
    // A cost that fitted before no longer does; a peek beyond the limit is refused as well.
    assert!(!window.decide(&mut state, at(2), 3).allowed);
    assert!(!window.decide(&mut state, at(2), 0).allowed);
    assert_eq!(window.used(&state, at(2)), 7 + 5 * 4 + 3);
    assert_eq!(window.full_at(&state), at(10));
    assert!(window.decide(&mut state, at(10), 10).allowed);
    // A peek at exactly the limit passes. Waiting is not possible.
    assert!(window.decide(&mut state, at(10), 0).allowed);
    assert!(!window.reserve(&mut state, at(10), 1, Span::MAX).allowed);
}

#[test]
fn a_clock_that_goes_back_gives_nothing() {
    for window in [aligned(2), first_hit(2), months(2)] {
        let mut state = window.fresh(at(100));
        assert!(window.decide(&mut state, at(100), 2).allowed);
        assert!(!window.decide(&mut state, at(95), 1).allowed);
        assert!(!window.decide(&mut state, at(100), 1).allowed);
        assert!(window.decide(&mut state, at(130), 1).allowed);
        // A key with nothing spent is not bound to a window in the future.
        window.charge(&mut state, at(130), -1);
        assert!(window.decide(&mut state, at(20), 2).allowed);
        assert!(window.decide(&mut state, at(51), 2).allowed);
    }
}

#[test]
fn refunds() {
    let window = aligned(10);
    let mut state = window.fresh(at(0));
    assert!(window.decide(&mut state, at(0), 10).allowed);
    window.charge(&mut state, at(1), -4);
    assert_eq!(window.peek(&state, at(1)).remaining, 4);
    window.charge(&mut state, at(1), i64::MIN);
    assert_eq!(window.peek(&state, at(1)).remaining, 10);
    // A refund after the end of its window has no effect.
    assert!(window.decide(&mut state, at(1), 10).allowed);
    window.charge(&mut state, at(11), -10);
    assert!(window.decide(&mut state, at(11), 10).allowed);
    assert!(!window.decide(&mut state, at(11), 1).allowed);
}

#[test]
fn invalid_parameters_are_refused() {
    let refused =
        |limit, length| FixedWindow::new(limit, Window::FirstHit { length }).map(drop).unwrap_err();
    assert_eq!(refused(0, TEN), InvalidLimit::ZeroAmount);
    assert_eq!(refused(u64::MAX, TEN), InvalidLimit::AmountTooLarge(u64::MAX));
    assert_eq!(refused(1, Span::ZERO), InvalidLimit::ZeroPeriod);
    assert_eq!(refused(1, Span::MAX), InvalidLimit::PeriodTooLong);
    assert!(FixedWindow::new(0, Window::Calendar(Arc::new(Months))).is_err());
}

#[test]
fn a_changed_limit_keeps_what_is_left() {
    let (old, new) = (aligned(10), aligned(4));
    let mut state = old.fresh(at(3));
    old.charge(&mut state, at(3), 13);
    let left = Carry::AsIs.apply(-3, 10, 4);
    let mut state = new.with_remaining(at(3), left);
    assert_eq!(new.used(&state, at(3)), 7);
    assert_eq!(new.decide(&mut state, at(3), 1).retry, after(7));
    assert_eq!(new.peek(&state, at(10)).remaining, 1);
}

#[test]
fn parts_are_a_round_trip() {
    let window = aligned(10);
    let mut state = window.fresh(at(3));
    window.charge(&mut state, at(3), 13);
    let (end, used) = state.parts();
    assert_eq!((end, used), (at(10), 13));
    assert_eq!(FixedWindowState::from_parts(end, used), state);
}

/// A calendar of a single period.
#[derive(Debug)]
struct Ends(Time);

impl Calendar for Ends {
    fn period_end(&self, now: Time) -> Time {
        if now < self.0 { self.0 } else { Time::MAX }
    }

    fn longest(&self) -> Span {
        Span::MAX
    }
}

/// Repeated refusals on a calendar that counts them once postponed its reset for ever.
#[test]
fn counted_refusals_never_outlast_their_period() {
    let end = Time::from_nanos(100);
    let day = FixedWindow::new(3, Window::Calendar(Arc::new(Ends(end)))).unwrap().count_denied();
    let mut state = day.fresh(Time::EPOCH);
    for _ in 0..4 {
        day.decide(&mut state, Time::EPOCH, 1 << 40);
    }
    assert_eq!(day.peek(&state, Time::EPOCH).reset_after, end.since(Time::EPOCH));
    assert_eq!(day.full_at(&state), end);
}
