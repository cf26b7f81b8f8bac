//! The failure-rate controller judges once, and only what is used.

use super::*;

#[test]
fn one_bad_moment_halves_once() {
    let bulkhead = Bulkhead::new(1, 100).unwrap().initial(40).window(4, 4);
    let call = |state, failed| {
        bulkhead.update(state, Sample { rtt: Span::ZERO, in_flight: 100, dropped: failed })
    };
    let state = [true, true, true, true].into_iter().fold(bulkhead.start(), call);
    assert_eq!((state.limit(), state.is_slow_start()), (20, false));
    assert_eq!([false; 8].into_iter().fold(state, call).limit(), 22);
}

#[test]
fn slow_calls_count_and_idle_limits_hold() {
    let bulkhead = Bulkhead::new(1, 100).unwrap().initial(40).window(2, 2);
    let bulkhead = bulkhead.slow_pct(50, Span::from_millis(5));
    let after = |ms, n| {
        let sample = Sample::ok(Span::from_millis(ms), n);
        bulkhead.update(bulkhead.update(bulkhead.start(), sample), sample).limit()
    };
    assert_eq!((after(6, 40), after(5, 40), after(5, 19)), (20, 80, 40));
}
