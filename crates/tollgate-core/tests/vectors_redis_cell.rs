//! Traces of redis-cell: `CL.THROTTLE key max_burst count period [quantity]`.
//!
//! The limit is a meter of `count` per `period` that holds `max_burst + 1`. The reply is rendered here
//! as a door would, with seconds rounded up.

mod vectors;

use serde_json::{Value, json};
use tollgate_core::{Algorithm, InvalidLimit, Judgement, Meter, MeterState, Retry, Span, Time};
use vectors::{Step, Vector, int, load, signed};

fn meter(args: &Value) -> Result<Meter, InvalidLimit> {
    let burst = u64::try_from(signed(args, "max_burst") + 1).expect("a burst of at least -1");
    Meter::new(int(args, "count"), Span::from_secs(int(args, "period_s")), burst)
}

fn seconds(span: Span) -> i64 {
    span.as_nanos().div_ceil(1_000_000_000) as i64
}

/// Returns the reply `[limited, limit, remaining, retry, reset]`.
fn throttle(meter: &Meter, state: &mut MeterState, now: Time, quantity: i64) -> [i64; 5] {
    let reply = |limited, judgement: Judgement, retry| {
        let (limit, left) = (meter.capacity() as i64, judgement.remaining as i64);
        [limited, limit, left, retry, seconds(judgement.reset_after)]
    };
    let Ok(cost) = u64::try_from(quantity) else {
        meter.charge(state, now, quantity);
        return reply(0, meter.judge(state, now), -1);
    };
    let verdict = meter.decide(state, now, cost);
    let judgement = meter.peek(state, now);
    match verdict.retry {
        Retry::Now => reply(0, judgement, -1),
        Retry::After(span) => reply(1, judgement, seconds(span)),
        Retry::Never => reply(1, judgement, -1),
    }
}

fn quantity(step: &Step) -> i64 {
    step.args.get("quantity").map_or(1, |_| signed(&step.args, "quantity"))
}

fn replies(vector: &Vector) -> Vec<[i64; 5]> {
    let mut state = None;
    let steps = vector.steps.iter().map(|step| {
        assert_eq!(step.op, "cl.throttle");
        let meter = meter(&step.args).expect("a valid limit");
        let state = state.get_or_insert_with(|| meter.fresh(step.now()));
        throttle(&meter, state, step.now(), quantity(step))
    });
    steps.collect()
}

fn matches_upstream(vector: &Vector) {
    for (nth, (step, reply)) in vector.steps.iter().zip(replies(vector)).enumerate() {
        assert_eq!(json!(reply), step.expect["reply"], "{} step {nth}", vector.id);
    }
}

/// Checks that a limited request never gets a retry of 0 seconds.
///
/// Upstream truncates below a millisecond and replies 0. Ours is 1 there; all else is equal.
fn never_zero_while_limited(vector: &Vector) {
    for (nth, (step, ours)) in vector.steps.iter().zip(replies(vector)).enumerate() {
        let at = format!("{} step {nth}", vector.id);
        let theirs: Vec<i64> = serde_json::from_value(step.expect["reply"].clone()).unwrap();
        assert_eq!(ours[..3], theirs[..3], "{at}");
        for (ours, theirs) in ours[3..].iter().zip(&theirs[3..]) {
            assert!(ours == theirs || (*ours == 1 && *theirs == 0), "{at}: {ours}, not {theirs}");
        }
        assert!(ours[0] == 0 || ours[3] > 0, "{at}: limited, with a retry of zero");
        assert!(ours[4] > 0, "{at}: spent, with a reset of zero");
    }
}

/// Checks a refund beyond full, which fails upstream after a write; here the key is full.
fn refund_beyond_full(vector: &Vector) {
    for (nth, (step, ours)) in vector.steps.iter().zip(replies(vector)).enumerate() {
        match step.expect.get("error") {
            Some(_) => assert_eq!(ours, [0, 5, 5, -1, 0]),
            None => assert_eq!(json!(ours), step.expect["reply"], "{} step {nth}", vector.id),
        }
    }
}

#[test]
fn every_trace_matches_upstream() {
    let vectors = load("redis-cell.json");
    assert_eq!(vectors.len(), 12);
    for vector in &vectors {
        let first = &vector.steps[0].args;
        match vector.id.strip_prefix("redis-cell/").expect("a redis-cell vector") {
            "readme_user123"
            | "e2e_burst0"
            | "quantity_zero_peek"
            | "clock_backwards"
            | "fractional_seconds_round_up"
            | "wait_then_full" => matches_upstream(vector),
            "sub_ms_10000_per_s" | "large_burst" => never_zero_while_limited(vector),
            "negative_quantity" => refund_beyond_full(vector),
            // A limit of zero is invalid: the door replies with an error.
            "burst_minus_one" => assert_eq!(meter(first), Err(InvalidLimit::ZeroBurst)),
            "zero_count" => assert_eq!(meter(first), Err(InvalidLimit::ZeroAmount)),
            // The door parses arguments; only integers reach this crate.
            "bad_integer" => {
                for step in &vector.steps {
                    let numbers = ["max_burst", "count", "period_s", "quantity"];
                    let bad = |name: &&str| step.args.get(name).is_some_and(Value::is_string);
                    assert_eq!(numbers.iter().filter(|name| bad(name)).count(), 1);
                    assert!(step.expect["error"].is_string());
                }
            }
            other => panic!("unknown vector {other}"),
        }
    }
}
