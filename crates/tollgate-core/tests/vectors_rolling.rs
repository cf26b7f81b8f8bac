//! Traces of ClassDojo's rolling-rate-limiter: `sliding_log` with `count_denied` and `min_gap`.

mod vectors;

use std::collections::HashMap;

use tollgate_core::{Algorithm, MAX_AMOUNT, SlidingLog, SlidingLogState, Span, Time};
use vectors::{Step, Vector, flag, int, load, text};

struct Limits {
    both: SlidingLog,
    /// Limits with only one of the two reasons to refuse.
    count: SlidingLog,
    gap: SlidingLog,
}

impl Limits {
    fn new(vector: &Vector) -> Limits {
        let window = Span::from_millis(int(&vector.config, "interval_ms"));
        let gap = Span::from_millis(int(&vector.config, "min_difference_ms"));
        let count = SlidingLog::new(int(&vector.config, "max_in_interval"), window).unwrap();
        Limits {
            both: count.min_gap(gap).unwrap().count_denied(),
            count,
            gap: SlidingLog::new(MAX_AMOUNT, window).unwrap().min_gap(gap).unwrap(),
        }
    }
}

#[test]
fn every_trace_matches_upstream() {
    for vector in load("rolling-rate-limiter.json") {
        assert!(!vector.known_upstream_bug, "{}", vector.id);
        let limits = Limits::new(&vector);
        let mut keys = HashMap::new();
        for (n, step) in vector.steps.iter().enumerate() {
            let state = keys.entry(text(&step.args, "key")).or_default();
            replay(&limits, state, step, &format!("{} step {n}", vector.id));
        }
    }
}

fn replay(limits: &Limits, state: &mut SlidingLogState, step: &Step, what: &str) {
    let now = Time::from_nanos(step.at);
    if step.op == "clear" {
        *state = limits.both.fresh(now);
        return;
    }
    let blocked_by = |limit: &SlidingLog| !limit.retry_after(state, now, 1).is_zero();
    let (by_count, by_gap) = (blocked_by(&limits.count), blocked_by(&limits.gap));
    let mut charged = state.clone();
    let verdict = limits.both.decide(&mut charged, now, 1);
    // Upstream reports for every call, allowed or not, when the next one may come.
    let next = limits.both.retry_after(&charged, now, 1);

    let expect = &step.expect;
    assert_eq!(!verdict.allowed, flag(expect, "blocked"), "{what}: blocked");
    assert_eq!(by_count, flag(expect, "blocked_due_to_count"), "{what}: by count");
    assert_eq!(by_gap, flag(expect, "blocked_due_to_min_difference"), "{what}: by gap");
    assert_eq!(next, Span::from_millis(int(expect, "ms_until_allowed")), "{what}: wait");
    assert_eq!(verdict.remaining, int(expect, "actions_remaining"), "{what}: remaining");
    assert_eq!(verdict.retry_after(), (!verdict.allowed).then_some(next), "{what}: retry");

    match step.op.as_str() {
        "limitWithInfo" => *state = charged,
        "wouldLimitWithInfo" => {}
        other => panic!("{what}: unknown call {other}"),
    }
}
