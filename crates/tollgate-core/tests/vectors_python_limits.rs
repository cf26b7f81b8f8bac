//! Traces of Python's `limits`: fixed windows opened by the first hit, and sliding windows of two
//! counters.

mod vectors;

use tollgate_core::{Algorithm, FixedWindow, SlidingWindow, Span, Time, Window};
use vectors::{Vector, int, load};

/// Runs the trace and calls `check(step, allowed, remaining, reset in ms)` after each step.
fn run<A: Algorithm>(
    vector: &Vector,
    algo: &A,
    mut check: impl FnMut(usize, Option<bool>, u64, f64),
) {
    let epoch = Span::from_secs(int(&vector.config, "epoch_s"));
    let mut state = algo.fresh(Time::EPOCH + epoch);
    for (nth, step) in vector.steps.iter().enumerate() {
        let now = step.now() + epoch;
        let cost = int(&step.args, "cost");
        let allowed = match step.op.as_str() {
            "hit" => Some(algo.decide(&mut state, now, cost).allowed),
            "test" => Some(algo.decide(&mut state.clone(), now, cost).allowed),
            "clear" => {
                state = algo.fresh(now);
                None
            }
            other => panic!("{}: unknown operation {other}", vector.id),
        };
        let judgement = algo.peek(&state, now);
        check(nth, allowed, judgement.remaining, judgement.reset_after.as_nanos() as f64 / 1e6);
    }
}

fn fixed(vector: &Vector) {
    let length = Span::from_secs(int(&vector.config, "window_s"));
    let window = FixedWindow::new(int(&vector.config, "amount"), Window::FirstHit { length });
    run(vector, &window.unwrap().count_denied(), |nth, allowed, remaining, reset_ms| {
        let (expect, at) = (&vector.steps[nth].expect, format!("{} step {nth}", vector.id));
        assert_eq!(allowed, expect["allowed"].as_bool(), "{at}");
        assert_eq!(remaining, int(expect, "remaining"), "{at}");
        assert_eq!(Some(reset_ms), expect["reset_in_ms"].as_f64(), "{at}");
    });
}

/// Compares a sliding window: the same requests pass.
///
/// The remaining amount of upstream is computed in doubles and may be one off; its reset is that of a
/// counter, not of the limit.
fn sliding(vector: &Vector) {
    let length = Span::from_secs(int(&vector.config, "window_s"));
    let window = SlidingWindow::new(int(&vector.config, "amount"), length).unwrap();
    run(vector, &window, |nth, allowed, remaining, _| {
        let (expect, at) = (&vector.steps[nth].expect, format!("{} step {nth}", vector.id));
        assert_eq!(allowed, expect["allowed"].as_bool(), "{at}");
        assert!(remaining.abs_diff(int(expect, "remaining")) <= 1, "{at}: {remaining}");
    });
}

#[test]
fn every_trace_matches_upstream() {
    let vectors = load("python-limits.json");
    assert_eq!(vectors.len(), 5);
    for vector in &vectors {
        match vector.id.as_str() {
            "python-limits/fixed/basic" | "python-limits/fixed/test_does_not_consume" => {
                fixed(vector);
            }
            "python-limits/sliding/basic"
            | "python-limits/sliding/mid_window_start"
            | "python-limits/sliding/cost_gt_limit" => sliding(vector),
            other => panic!("unknown vector {other}"),
        }
    }
}
