//! Adaptive limits: properties that hold for any history.

use proptest::prelude::*;
use tollgate_core::adaptive::{
    Aimd, Controller, Flow, Gradient, Sample, Vegas, WindowedController,
};
use tollgate_core::{MAX_AMOUNT, Span, Time};

/// Generates numbers, among them many extremes.
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

/// Runs a block for every controller, with tuning derived from `$x`.
macro_rules! for_each_controller {
    (($min:expr, $max:expr, $initial:expr, $x:expr), |$controller:ident| $body:block) => {{
        let (min, max, initial, x): (u64, u64, u64, u32) = ($min, $max, $initial, $x);
        let aimd = Aimd::new(min, max).unwrap().initial(initial);
        let vegas = Vegas::new(min, max).unwrap().initial(initial);
        let gradient = Gradient::new(min, max).unwrap().initial(initial);
        let tuned = gradient.smoothing_pct(x).tolerance_pct(x).backoff_pct(x).long_window(x);
        let $controller = aimd.backoff_pct(x);
        $body
        for $controller in [
            vegas,
            vegas.fixed_queue(x, x / 2).smoothing_pct(x).probe_every(x),
            vegas.queue(x, x).probe_every(1).as_netflix(),
        ] {
            $body
        }
        for $controller in [
            gradient,
            tuned.queue_size(u64::MAX),
            tuned.queue_size(u64::from(x)).as_netflix(),
        ] {
            $body
        }
    }};
}

/// Returns the limits before and after a drop that ends `samples`.
fn around_a_drop<C: Controller>(controller: &C, samples: &[Sample], rtt: Span) -> (u64, u64) {
    let state = samples.iter().fold(controller.start(), |s, x| controller.update(s, *x));
    let after = controller.update(state, Sample::dropped(rtt, u64::MAX));
    (controller.limit(&state), controller.limit(&after))
}

proptest! {
    #[test]
    fn limits_stay_within_their_bounds(
        (min, max) in bounds(), initial in extreme(), x in any::<u32>(), samples in samples()
    ) {
        for_each_controller!((min, max, initial, x), |controller| {
            let mut state = controller.start();
            for sample in &samples {
                prop_assert!((min..=max).contains(&controller.limit(&state)), "{controller:?}");
                state = controller.update(state, *sample);
            }
            prop_assert!((min..=max).contains(&controller.limit(&state)), "{controller:?}");
        });
    }

    #[test]
    fn windows_stay_within_their_bounds(
        (min, max) in bounds(), x in any::<u32>(), samples in samples(), gap in extreme()
    ) {
        for_each_controller!((min, max, min, x), |controller| {
            let window = WindowedController::new(controller).min_rtt(Span::ZERO).min_samples(x % 20);
            for window in [window, window.percentile(x, x as usize % 100)] {
                let (mut state, mut now) = (window.start(), Time::EPOCH);
                for sample in &samples {
                    now = now + Span::from_nanos(gap);
                    window.update(&mut state, now, *sample);
                    prop_assert!((min..=max).contains(&window.limit(&state)));
                }
            }
        });
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
        let rtt = Span::from_nanos(rtt);
        for (before, after) in [
            around_a_drop(&Aimd::new(min, max).unwrap().initial(initial), &samples, rtt),
            around_a_drop(&Vegas::new(min, max).unwrap().initial(initial), &samples, rtt),
            around_a_drop(&Gradient::new(min, max).unwrap().initial(initial), &samples, rtt),
        ] {
            prop_assert!(after < before || before == min, "{before} to {after}");
        }
    }

    #[test]
    fn an_idle_limit_never_grows((min, max) in bounds(), x in any::<u32>(), samples in samples()) {
        for_each_controller!((min, max, min, x), |controller| {
            let mut state = controller.start();
            for sample in &samples {
                let limit = controller.limit(&state);
                let in_flight = limit.div_ceil(2) - 1;
                state = controller.update(state, Sample { in_flight, ..*sample });
                prop_assert!(controller.limit(&state) <= limit, "{controller:?}");
            }
        });
    }

    /// Under a steady load on a service that queues, the limit stays near what the service can serve.
    /// (Netflix's Gradient2 goes to its maximum.)
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
}
