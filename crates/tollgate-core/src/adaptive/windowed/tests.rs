//! The samples that a window ignores, and those that it must not.

use super::*;
use crate::adaptive::{Aimd, Gradient};

#[test]
fn quiet_periods_and_fast_requests_are_ignored_but_drops_are_not() {
    let window = WindowedController::new(Aimd::new(1, 200).unwrap().initial(100));
    let mut state = window.start();
    let at = |secs| Time::EPOCH + Span::from_secs(secs);
    for i in 0..50 {
        window.update(&mut state, at(1), Sample::ok(Span::from_micros(99), 100));
        window.update(&mut state, at(2 + 2 * i), Sample::ok(Span::from_millis(1), 100));
    }
    assert_eq!(window.limit(&state), 100);
    window.update(&mut state, at(200), Sample::dropped(Span::ZERO, 100));
    assert_eq!(window.limit(&state), 90);
}

#[test]
fn slow_start_doubles_per_period() {
    let window = WindowedController::new(Gradient::new(20, 1000).unwrap());
    let mut state = window.start();
    for i in 0..3_500 {
        let now = Time::from_nanos(1 + i * 1_000_000); // 3.5 s at 1000 a second
        let sample = Sample::ok(Span::from_millis(5), window.limit(&state));
        window.update(&mut state, now, sample);
    }
    assert_eq!(window.limit(&state), 160);
}
