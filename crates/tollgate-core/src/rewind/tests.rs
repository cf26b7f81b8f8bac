//! A spent key, a debt and a lease, before and after a step of the clock.

use crate::{
    Algorithm, Concurrency, ConcurrencyState, FixedWindow, Meter, Refill, Rewind, SlidingLog,
    SlidingSlots, SlidingWindow, Span, Time, WarmUp, Window,
};

const HOUR: Span = Span::from_secs(3_600);
/// A moment that is no multiple of any window below.
const NOW: Time = Time::from_nanos(1_767_268_807_500_000_000);

/// Spends all of a limit, steps the clock back by an hour, and returns how long the key is refused.
fn locked_out<A: Algorithm + Rewind<State = <A as Algorithm>::State>>(limit: &A) -> Span {
    let mut state = Algorithm::fresh(limit, NOW);
    limit.charge(&mut state, NOW, i64::try_from(limit.capacity()).unwrap());
    let before = limit.retry_after(&state, NOW, 1);
    let now = NOW - HOUR;
    let written = limit.is_ahead(&state, NOW).then_some(NOW);
    assert!(limit.retry_after(&state, now, 1) > HOUR.max(before));
    assert!(limit.rewind(&mut state, written, now));
    assert!(!limit.rewind(&mut state, written.map(|_| now), now), "it happens once");
    assert!(!limit.decide(&mut state, now, 1).allowed, "nothing is free");
    limit.retry_after(&state, now, 1)
}

#[test]
fn a_spent_key_waits_no_longer_than_before_the_step() {
    let second = Span::from_secs(1);
    let meter = Meter::new(10, second, 10).unwrap();
    assert_eq!(locked_out(&meter), Span::from_millis(100));
    let interval = meter.refill(Refill::Interval { phase: Time::EPOCH });
    assert!(locked_out(&interval) <= second);
    assert!(locked_out(&FixedWindow::new(10, Window::epoch(second)).unwrap()) <= second);
    let first_hit = Window::FirstHit { length: second };
    assert_eq!(locked_out(&FixedWindow::new(10, first_hit).unwrap()), second);
    assert!(locked_out(&SlidingWindow::new(10, second).unwrap()) <= second.times(2));
    assert_eq!(locked_out(&SlidingLog::new(10, second).unwrap()), second);
    assert!(locked_out(&SlidingSlots::new(10, second, 10).unwrap()) <= second);
}

#[test]
fn a_warm_up_waits_as_long_as_its_last_request_takes() {
    let limit = WarmUp::new(10, Span::from_secs(1), Span::from_secs(5)).unwrap();
    let mut state = limit.fresh(NOW);
    limit.charge(&mut state, NOW, 10);
    let before = limit.judge(&state, NOW).overdrawn;
    assert!(limit.rewind(&mut state, Some(NOW), NOW - HOUR));
    assert_eq!(limit.judge(&state, NOW - HOUR).overdrawn, before);
}

/// A key is spent, the clock steps forward by two hours, the key gets a debt, and the clock steps back.
#[test]
fn a_debt_after_a_step_forward_is_kept_by_a_step_back() {
    let limit = WarmUp::new(1_000, Span::from_secs(1), Span::from_secs(1)).unwrap();
    let mut state = limit.fresh(NOW - HOUR.times(2));
    limit.charge(&mut state, NOW - HOUR.times(2), 600_000);
    limit.charge(&mut state, NOW, 600_000);
    let before = limit.judge(&state, NOW).overdrawn;
    assert!(before > Span::from_secs(600) && limit.is_ahead(&state, NOW));
    for hours in [1, 2] {
        let (written, now) = (NOW - HOUR.times(hours - 1), NOW - HOUR.times(hours));
        assert!(limit.rewind(&mut state, Some(written), now));
        assert_eq!(limit.judge(&state, now).overdrawn, before);
    }
}

#[test]
fn a_debt_is_kept_and_not_prolonged() {
    let meter = Meter::new(1_000, Span::from_secs(1), 1).unwrap();
    let mut ban = meter.fresh(NOW);
    meter.charge(&mut ban, NOW, 600_000);
    assert!(meter.is_ahead(&ban, NOW));
    let mut same = ban;
    assert!(!meter.rewind(&mut same, Some(NOW), NOW + Span::from_secs(60)), "time went on");
    assert_eq!(same, ban);
    assert!(meter.rewind(&mut ban, Some(NOW), NOW - HOUR));
    assert_eq!(meter.full_at(&ban), NOW - HOUR + Span::from_secs(600));
}

#[test]
fn a_reservation_of_a_log_is_kept() {
    let log = SlidingLog::new(1, Span::from_secs(60)).unwrap();
    let mut state = log.fresh(NOW);
    assert!(log.decide(&mut state, NOW, 1).allowed);
    assert_eq!(log.reserve(&mut state, NOW, 1, HOUR).wait, Span::from_secs(60));
    assert!(log.is_ahead(&state, NOW));
    let mut unchanged = state.clone();
    assert!(!log.rewind(&mut unchanged, Some(NOW), NOW));
    assert!(log.rewind(&mut state, Some(NOW), NOW - HOUR));
    assert_eq!(log.retry_after(&state, NOW - HOUR, 1), Span::from_secs(120));
}

#[test]
fn leases_last_no_longer_than_the_limit_says() {
    let limit = Concurrency::new(2, Span::from_secs(30)).unwrap();
    let mut state = ConcurrencyState::default();
    limit.acquire(&mut state, NOW - Span::from_secs(10), 1, 71);
    limit.acquire(&mut state, NOW, 1, 72);
    let now = NOW - HOUR;
    assert!(limit.rewind(&mut state, None, now));
    let expiries: Vec<Span> = state.leases().map(|lease| lease.expires.since(now)).collect();
    assert_eq!(expiries, [20, 30].map(Span::from_secs));
    assert!(!limit.rewind(&mut state, None, now));
}

#[test]
fn a_state_in_its_time_is_left_alone() {
    let meter = Meter::new(3, Span::from_secs(1), 5).unwrap();
    let mut state = meter.fresh(NOW);
    meter.charge(&mut state, NOW, 5);
    for now in [NOW, NOW + HOUR] {
        let before = state;
        assert!(!meter.rewind(&mut state, None, now));
        assert_eq!(state, before);
    }
}
