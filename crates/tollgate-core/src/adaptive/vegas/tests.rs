//! The Vegas controller: drops, an outdated best latency, and smoothing.

use super::*;

fn ok(millis: u64, in_flight: u64) -> Sample {
    Sample::ok(Span::from_millis(millis), in_flight)
}

#[test]
fn a_fast_drop_lowers_the_limit_and_is_not_the_best_latency() {
    let vegas = Vegas::new(1, 100).unwrap().initial(50);
    let state = vegas.update(vegas.start(), ok(10, 50));
    let state = vegas.update(state, Sample::dropped(Span::ZERO, 50));
    assert_eq!((state.limit(), state.best_rtt()), (49, Some(Span::from_millis(10))));
}

#[test]
fn a_lucky_sample_is_forgotten_after_thirty_rounds() {
    let vegas = Vegas::new(1, 1).unwrap();
    let mut state = vegas.update(vegas.start(), ok(1, 1));
    for _ in 0..59 {
        assert_eq!(state.best_rtt(), Some(Span::from_millis(1)));
        state = vegas.update(state, ok(10, 1));
    }
    assert_eq!(state.best_rtt(), Some(Span::from_millis(10)));
}

#[test]
fn smoothing_takes_part_of_a_step() {
    let vegas = Vegas::new(1, 100).unwrap().initial(20).smoothing_pct(50);
    let state = vegas.update(vegas.update(vegas.start(), ok(10, 20)), ok(10, 20));
    assert_eq!(state.estimate_billionths(), 23_000_000_000);
}
