//! What the flow controller does where a simulation does not go.

use super::*;

fn at(millis: u64) -> Time {
    Time::EPOCH + Span::from_secs(1_000) + Span::from_millis(millis)
}

/// A service with ten places of 10 ms each, asked for more than it bears; the levels it had.
fn levels(flow: Flow, state: &mut FlowState, from: u64, until: u64, ms: u64) -> Vec<u64> {
    (from..until)
        .map(|now| {
            let in_flight = state.limit();
            let rtt = Span::from_micros(100 * ms * in_flight.max(10));
            flow.update(state, at(now), Sample::ok(rtt, in_flight));
            state.limit()
        })
        .collect()
}

#[test]
fn a_service_slower_for_good_is_found_out_without_staying_at_the_minimum() {
    let flow = Flow::new(1, 500).unwrap();
    let mut state = flow.start();
    levels(flow, &mut state, 0, 5_000, 10);
    let slower = levels(flow, &mut state, 5_000, 15_000, 40);
    assert_eq!(state.unloaded(), Some(Span::from_millis(40)));
    assert!(*slower.last().unwrap() >= 10, "{:?}", state);
}

#[test]
fn a_look_that_never_begins_is_given_up() {
    let flow = Flow::new(1, 500).unwrap().initial(30);
    let mut state = flow.start();
    // Streams keep thirty places for ever, and are answered at once.
    for now in 0..60_000 {
        flow.update(&mut state, at(now), Sample::ok(Span::from_millis(10), 30));
        if matches!(state.part, Part::Looking { .. }) {
            assert!(now.abs_diff(state.began.since(at(0)).as_nanos() / 1_000_000) <= 1_001);
        }
    }
    assert!(state.limit() >= 8, "{state:?}");
}

#[test]
fn a_service_that_is_down_is_taken_for_down_however_few_ask() {
    let flow = Flow::new(2, 500).unwrap().initial(400);
    let mut state = flow.start();
    for now in 0..40 {
        flow.update(&mut state, at(1_000 * now), Sample::dropped(Span::ZERO, 1));
    }
    assert_eq!(state.limit(), 2);
}

#[test]
fn a_quiet_service_keeps_its_level() {
    let flow = Flow::new(2, 500).unwrap().initial(40);
    let mut state = flow.start();
    for now in 0..1_000 {
        flow.update(&mut state, at(700 * now), Sample::ok(Span::from_millis(20), 1));
    }
    assert_eq!((state.limit(), state.unloaded()), (40, Some(Span::from_millis(20))));
}

/// A service that works in batches: the last of each would seem to have been alone.
#[test]
fn those_that_end_together_were_in_flight_together() {
    let flow = Flow::new(1, 500).unwrap();
    let mut state = flow.start();
    for round in 0..500 {
        let batch = state.limit();
        let rtt = Span::from_millis(10 * batch.div_ceil(24));
        for left in (1..=batch).rev() {
            flow.update(&mut state, at(20 * round), Sample::ok(rtt, left));
        }
    }
    assert!((24..=48).contains(&state.limit()), "{state:?}");
}
