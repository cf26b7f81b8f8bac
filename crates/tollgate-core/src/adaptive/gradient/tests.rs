//! The gradient controller: where it settles, slow start, and a changed service.

use super::*;
use crate::Span;

/// Returns the limit under a service that serves `capacity` at once in 10 ms and queues the rest.
fn settle(gradient: Gradient, capacity: u64, samples: u32) -> u64 {
    (0..samples)
        .fold(gradient.start(), |state, _| {
            let in_flight = state.limit();
            let rtt = Span::from_micros(10_000 * in_flight.max(capacity) / capacity);
            gradient.update(state, Sample::ok(rtt, in_flight))
        })
        .limit()
}

#[test]
fn settles_where_the_queue_has_the_configured_size() {
    let gradient = Gradient::new(20, 1000).unwrap();
    assert_eq!(settle(gradient, 100, 1_000), 104); // 100 served and 4 waiting
    assert_eq!(settle(gradient, 100, 100_000), 104); // and no creep, ever
    assert_eq!(settle(gradient.as_netflix(), 100, 100_000), 1000);
}

#[test]
fn slow_start_doubles_per_round_until_the_first_queue() {
    let gradient = Gradient::new(20, 1000).unwrap();
    let sample = |ms, n| Sample::ok(Span::from_millis(ms), n);
    let state = gradient.digest(gradient.start(), sample(10, 20), 5_000);
    let state = gradient.digest(state, sample(10, 40), 5_000);
    assert_eq!(state.limit(), 80);
    let state = gradient.digest(state, sample(14, 80), 5_000); // a queue, within tolerance
    assert_eq!(state.limit(), 80);
    assert_eq!(gradient.digest(state, sample(10, 80), 5_000).limit(), 80); // 80.8
}

#[test]
fn a_permanently_slower_service_is_learned_at_the_minimum() {
    let gradient = Gradient::new(5, 100).unwrap().long_window(50).initial(50);
    let mut state = gradient.start();
    let mut lowest = u64::MAX;
    for i in 0..2_000 {
        let rtt = Span::from_millis(if i < 100 { 10 } else { 40 });
        state = gradient.update(state, Sample::ok(rtt, state.limit()));
        lowest = lowest.min(state.limit());
    }
    assert_eq!((lowest, state.limit()), (5, 100));
}
