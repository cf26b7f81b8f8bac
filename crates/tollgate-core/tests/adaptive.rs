//! Adaptive limits: resilience4j's adaptive bulkhead, replayed; and what holds for any history.

use proptest::prelude::*;
use serde_json::Value;
use tollgate_core::adaptive::{
    Aimd, AnyController, Bulkhead, Controller, Flow, Gradient, Partitions, Sample, Vegas, Windowed,
};
use tollgate_core::{MAX_AMOUNT, Span, Time};

#[test]
fn resilience4j_adaptive_bulkhead() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/resilience4j.json");
    let all: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let is_ours = |v: &&Value| v["id"].as_str().unwrap().contains("/adaptive_bulkhead/");
    let mut replayed = 0;
    for vector in all.iter().filter(is_ours) {
        let config = &vector["config"];
        let n = |name: &str| config[name].as_u64().unwrap();
        assert_eq!((n("increase_augend"), n("increase_multiplier")), (1, 2));
        let bulkhead = Bulkhead::new(n("min"), n("max"))
            .unwrap()
            .initial(n("initial"))
            .window(n("sliding_window_size") as u32, n("minimum_number_of_calls") as u32)
            .every(n("increase_interval") as u32)
            .failure_pct(n("failure_rate_threshold_pct") as u32)
            .slow_pct(
                n("slow_call_rate_threshold_pct") as u32,
                Span::from_millis(n("slow_call_ms")),
            )
            .backoff_pct((config["decrease_multiplier"].as_f64().unwrap() * 100.0) as u32);
        let mut state = bulkhead.start();
        for (i, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
            let (args, expect) = (&step["args"], &step["expect"]);
            let was_slow_start = state.is_slow_start();
            let rtt = Span::from_millis(args["duration_ms"].as_u64().unwrap());
            let dropped = !args["success"].as_bool().unwrap();
            // Upstream does not ask how many are in flight; say that the limit is in use.
            let sample = Sample { rtt, in_flight: state.limit(), dropped };
            state = bulkhead.update(state, sample);
            assert_eq!(expect["limit"], state.limit(), "{} step {i}", vector["id"]);
            let turned = match (was_slow_start, state.is_slow_start()) {
                (true, false) => Some("CONGESTION_AVOIDANCE"),
                (false, true) => Some("SLOW_START"),
                _ => None,
            };
            assert_eq!(expect["transition_to"].as_str(), turned, "{} step {i}", vector["id"]);
        }
        replayed += 1;
    }
    assert_eq!(replayed, 3);
}

/// Numbers with a taste for the extremes.
fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..1_000u64, 0..1_000_000_000u64, any::<u64>()]
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (extreme(), extreme(), prop::bool::weighted(0.1))
        .prop_map(|(rtt, n, dropped)| Sample { rtt: Span::from_nanos(rtt), in_flight: n, dropped });
    prop::collection::vec(sample, 0..200)
}

fn bounds() -> impl Strategy<Value = (u64, u64)> {
    let bound = || prop_oneof![1..200u64, 1..=MAX_AMOUNT, Just(MAX_AMOUNT)];
    (bound(), bound()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

/// Every controller, with parameters from anywhere.
fn controllers(min: u64, max: u64, initial: u64, x: u32) -> Vec<AnyController> {
    let gradient = Gradient::new(min, max).unwrap().initial(initial);
    let tuned = gradient.smoothing_pct(x).tolerance_pct(x).backoff_pct(x).long_window(x);
    let vegas = Vegas::new(min, max).unwrap().initial(initial);
    let bulkhead = Bulkhead::new(min, max).unwrap().initial(initial);
    vec![
        AnyController::Aimd(Aimd::new(min, max).unwrap().initial(initial).backoff_pct(x)),
        AnyController::Vegas(vegas),
        AnyController::Vegas(vegas.fixed_queue(x, x / 2).smoothing_pct(x).probe_every(x)),
        AnyController::Vegas(vegas.queue(x, x).probe_every(1).as_netflix()),
        AnyController::Gradient(gradient),
        AnyController::Gradient(tuned.queue_size(u64::MAX)),
        AnyController::Gradient(tuned.queue_size(u64::from(x)).as_netflix()),
        AnyController::Bulkhead(bulkhead),
        AnyController::Bulkhead(bulkhead.window(x, x).every(x % 4).failure_pct(x).backoff_pct(x)),
    ]
}

proptest! {
    #[test]
    fn limits_stay_within_their_bounds(
        (min, max) in bounds(), initial in extreme(), x in any::<u32>(), samples in samples()
    ) {
        for controller in controllers(min, max, initial, x) {
            let mut state = controller.start();
            for sample in &samples {
                prop_assert!((min..=max).contains(&state.limit()), "{controller:?}");
                state = controller.update(state, *sample);
            }
            prop_assert!((min..=max).contains(&controller.limit(&state)), "{controller:?}");
        }
    }

    #[test]
    fn windows_stay_within_their_bounds(
        (min, max) in bounds(), x in any::<u32>(), samples in samples(), gap in extreme()
    ) {
        for controller in controllers(min, max, min, x) {
            let window = Windowed::new(controller).min_rtt(Span::ZERO).min_samples(x % 20);
            for window in [window, window.percentile(x, x as usize % 100)] {
                let (mut state, mut now) = (window.start(), Time::EPOCH);
                for sample in &samples {
                    now = now + Span::from_nanos(gap);
                    window.update(&mut state, now, *sample);
                    prop_assert!((min..=max).contains(&window.limit(&state)));
                }
            }
        }
    }

    #[test]
    fn the_flow_stays_within_its_bounds(
        (min, max) in bounds(), initial in extreme(), samples in samples(), gap in extreme()
    ) {
        let flow = Flow::new(min, max).unwrap().initial(initial);
        let (mut state, mut now) = (flow.start(), Time::EPOCH);
        for (number, sample) in samples.iter().enumerate() {
            // The clock may go back.
            now = if number % 7 == 0 { now - Span::from_secs(1) } else { now + Span::from_nanos(gap) };
            flow.update(&mut state, now, *sample);
            prop_assert!((min..=max).contains(&state.limit()), "{:?}", state);
        }
    }

    #[test]
    fn a_drop_never_raises_a_limit_and_lowers_any_above_the_minimum(
        (min, max) in bounds(), initial in extreme(), samples in samples(), rtt in extreme()
    ) {
        let defaults = [
            AnyController::Aimd(Aimd::new(min, max).unwrap().initial(initial)),
            AnyController::Vegas(Vegas::new(min, max).unwrap().initial(initial)),
            AnyController::Gradient(Gradient::new(min, max).unwrap().initial(initial)),
        ];
        for controller in defaults {
            let state = samples.iter().fold(controller.start(), |s, x| controller.update(s, *x));
            let sample = Sample::dropped(Span::from_nanos(rtt), u64::MAX);
            let after = controller.update(state, sample).limit();
            prop_assert!(after < state.limit() || state.limit() == min, "{controller:?}");
        }
    }

    #[test]
    fn an_idle_limit_never_grows((min, max) in bounds(), x in any::<u32>(), samples in samples()) {
        for controller in controllers(min, max, min, x) {
            let mut state = controller.start();
            for sample in &samples {
                let in_flight = state.limit().div_ceil(2) - 1;
                let after = controller.update(state, Sample { in_flight, ..*sample });
                prop_assert!(after.limit() <= state.limit(), "{controller:?}");
                state = after;
            }
        }
    }

    /// Steady load on a service that queues: however long it lasts, the limit stays near what the
    /// service can do. (Netflix's Gradient2 goes to its maximum.)
    #[test]
    fn gradient_does_not_creep(capacity in 30..300u64, window in 1..600u32) {
        let gradient = Gradient::new(20, 10_000).unwrap().long_window(window);
        let mut state = gradient.start();
        for _ in 0..5_000 {
            let n = state.limit();
            let rtt = Span::from_nanos(10_000_000 * n.max(capacity) / capacity);
            state = gradient.update(state, Sample::ok(rtt, n));
        }
        prop_assert!((capacity..=capacity + 5).contains(&state.limit()), "{}", state.limit());
    }

    /// Whatever comes, no admission takes the total above the limit of that moment; the parts
    /// make up the total; and a share that is not used up gets the next slot.
    #[test]
    fn partitions_never_exceed_the_limit(
        weights in prop::collection::vec(0..100u64, 1..5),
        steps in prop::collection::vec((0..6usize, 0..30u64, any::<bool>()), 0..300),
    ) {
        prop_assume!(weights.iter().any(|w| *w > 0));
        let shares = Partitions::new(&weights).unwrap();
        let mut used = shares.empty();
        for (at, (partition, limit, acquire)) in steps.into_iter().enumerate() {
            let now = Time::from_nanos(at as u64);
            let room = used.total() < limit && used.of(partition) < shares.share(partition, limit);
            if !acquire {
                used.release(partition);
            } else if shares.acquire(&mut used, partition, limit, now) {
                prop_assert!(used.total() <= limit);
            } else {
                prop_assert!(!room);
            }
            let sum: u64 = (0..=weights.len()).map(|p| used.of(p)).sum();
            prop_assert_eq!(sum, used.total());
        }
        for (p, weight) in weights.iter().enumerate() {
            prop_assert_eq!(shares.share(p, 29) > 0, *weight > 0);
        }
    }
}
