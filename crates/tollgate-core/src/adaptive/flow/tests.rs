//! The flow controller in situations that the simulation does not cover.

use super::*;

fn at(millis: u64) -> Time {
    Time::EPOCH + Span::from_secs(1_000) + Span::from_millis(millis)
}

/// Returns the limits under overload of a service that serves ten at once in `ms` each.
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
fn a_permanently_slower_service_is_learned_without_staying_at_the_minimum() {
    let flow = Flow::new(1, 500).unwrap();
    let mut state = flow.start();
    levels(flow, &mut state, 0, 5_000, 10);
    let slower = levels(flow, &mut state, 5_000, 15_000, 40);
    assert_eq!(state.unloaded(), Some(Span::from_millis(40)));
    assert!(*slower.last().unwrap() >= 10, "{:?}", state);
}

#[test]
fn a_probe_that_never_drains_is_given_up() {
    let flow = Flow::new(1, 500).unwrap().initial(30);
    let mut state = flow.start();
    // Thirty streams stay in flight for ever, and are answered at once.
    for now in 0..60_000 {
        flow.update(&mut state, at(now), Sample::ok(Span::from_millis(10), 30));
        if matches!(state.phase, FlowPhase::Probing { .. }) {
            assert!(now.abs_diff(state.period_start.since(at(0)).as_nanos() / 1_000_000) <= 1_001);
        }
    }
    assert!(state.limit() >= 8, "{state:?}");
}

#[test]
fn an_outage_is_detected_however_few_requests_there_are() {
    let flow = Flow::new(2, 500).unwrap().initial(400);
    let mut state = flow.start();
    for now in 0..40 {
        flow.update(&mut state, at(1_000 * now), Sample::dropped(Span::ZERO, 1));
    }
    assert_eq!(state.limit(), 2);
}

#[test]
fn a_quiet_service_keeps_its_limit() {
    let flow = Flow::new(2, 500).unwrap().initial(40);
    let mut state = flow.start();
    for now in 0..1_000 {
        flow.update(&mut state, at(700 * now), Sample::ok(Span::from_millis(20), 1));
    }
    assert_eq!((state.limit(), state.unloaded()), (40, Some(Span::from_millis(20))));
}

/// In a service that works in batches, the last of each would seem to have been alone.
#[test]
fn requests_that_end_together_were_in_flight_together() {
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

/// One in twenty takes forty times as long, so twenty samples often contain no slow one.
#[test]
fn requests_that_differ_much_are_judged_by_more_of_them() {
    let flow = Flow::new(2, 500).unwrap().initial(8);
    let mut state = flow.start();
    let millis = |now: u64| if now.is_multiple_of(20) { 200 } else { 5 };
    let mean = Span::from_micros(14_750);
    for now in 0..30_000 {
        let sample = Sample::ok(Span::from_millis(millis(now)), state.limit());
        flow.update(&mut state, at(now), sample);
    }
    assert!(state.required_samples > 200, "{state:?}");
    let base = state.unloaded().unwrap();
    assert!(base.as_nanos().abs_diff(mean.as_nanos()) < mean.as_nanos() / 6, "{state:?}");

    // An outage is still detected at once.
    let before = state.limit();
    for now in 30_000..30_600 {
        flow.update(&mut state, at(now), Sample::dropped(Span::from_millis(1), before));
    }
    assert!(state.limit() <= (before / 2).max(2), "{before}: {state:?}");
}

#[test]
fn a_stall_does_not_count_as_variance() {
    let flow = Flow::new(2, 500).unwrap().initial(12);
    let mut state = flow.start();
    levels(flow, &mut state, 0, 3_000, 10);
    for now in 3_000..3_012 {
        flow.update(&mut state, at(now + 3_000), Sample::ok(Span::from_secs(3), 12));
    }
    levels(flow, &mut state, 6_100, 6_400, 10);
    assert!(state.required_samples < 200, "{state:?}");
}

/// The load peaks at the limit now and then for half a minute, but is low on average.
#[test]
fn a_load_below_the_limit_is_not_probed() {
    let flow = Flow::new(2, 500).unwrap().initial(10);
    let mut state = flow.start();
    for now in 0..30_000u64 {
        let in_flight = if now.is_multiple_of(50) { 8 } else { 1 };
        flow.update(&mut state, at(now), Sample::ok(Span::from_millis(10), in_flight));
        assert_eq!(state.phase, FlowPhase::Steering, "{now}: {state:?}");
    }
}
