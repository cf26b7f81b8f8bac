//! Traces of Node's rate-limiter-flexible: points per duration from the first hit, with refused
//! points counted.

mod vectors;

use serde_json::Value;
use tollgate_core::{Algorithm, FixedWindow, FixedWindowState, InvalidLimit, Span, Time, Window};
use vectors::{Step, Vector, flag, int, load, signed};

const SECOND: u64 = 1_000_000_000;

struct Limiter {
    window: FixedWindow,
    state: FixedWindowState,
}

impl Limiter {
    fn new(config: &Value) -> Limiter {
        let length = Span::from_secs(int(config, "duration_s"));
        let window = FixedWindow::new(int(config, "points"), Window::FirstHit { length });
        let window = window.unwrap().count_denied();
        Limiter { state: window.fresh(Time::EPOCH), window }
    }

    fn consume(&mut self, now: Time, points: u64) -> bool {
        self.window.decide(&mut self.state, now, points).allowed
    }

    fn before_next(&self, now: Time) -> Span {
        self.window.peek(&self.state, now).reset_after
    }

    /// Compares consumed and remaining points with upstream's.
    fn assert_points(&self, step: &Step, at: &str) {
        let used = self.window.used(&self.state, step.now());
        assert_eq!(used, int(&step.expect, "consumed_points"), "{at}: consumed");
        let left = self.window.peek(&self.state, step.now()).remaining;
        assert_eq!(left, int(&step.expect, "remaining_points"), "{at}: remaining");
    }

    /// Runs a step of a single limiter, `late` after the time from which upstream counts.
    fn step(&mut self, step: &Step, late: Span, at: &str) {
        match step.op.as_str() {
            "consume" => {
                assert_eq!(
                    self.consume(step.now(), points(step)),
                    flag(&step.expect, "allowed"),
                    "{at}"
                );
            }
            "get" => {}
            other => panic!("{at}: unknown operation {other}"),
        }
        self.assert_points(step, at);
        assert_eq!(self.before_next(step.now()), millis(step) + late, "{at}: before next");
    }
}

fn points(step: &Step) -> u64 {
    step.args.get("points").map_or(1, |_| int(&step.args, "points"))
}

fn millis(step: &Step) -> Span {
    Span::from_millis(int(&step.expect, "ms_before_next"))
}

fn matches_upstream(vector: &Vector) {
    let mut limiter = Limiter::new(&vector.config);
    for (nth, step) in vector.steps.iter().enumerate() {
        limiter.step(step, Span::ZERO, &format!("{} step {nth}", vector.id));
    }
}

/// Checks that a peek opens no window.
///
/// Upstream opens one when nothing is consumed. Ours opens with the first spend, here one second
/// later. The same requests pass.
fn peek_opens_no_window(vector: &Vector) {
    let mut limiter = Limiter::new(&vector.config);
    let (peek, rest) = vector.steps.split_first().unwrap();
    assert_eq!((peek.at, points(peek), rest[0].at), (0, 0, 1_000_000_000));
    assert!(limiter.consume(peek.now(), 0));
    assert_eq!(limiter.before_next(peek.now()), Span::ZERO);
    limiter.assert_points(peek, "a peek");
    for (nth, step) in rest.iter().enumerate() {
        limiter.step(step, Span::from_secs(1), &format!("{} step {}", vector.id, nth + 1));
    }
}

/// Compares a trace up to the point at which upstream blocks the key.
///
/// Bans are not part of this crate. Within the window the limit refuses without a ban as well.
fn up_to_the_block(vector: &Vector) {
    let mut limiter = Limiter::new(&vector.config);
    let duration = int(&vector.config, "duration_s") * SECOND;
    for (nth, step) in vector.steps.iter().enumerate() {
        let at = format!("{} step {nth}", vector.id);
        match step.at {
            _ if nth < 2 => limiter.step(step, Span::ZERO, &at),
            now if now < duration => {
                assert!(!limiter.consume(step.now(), points(step)), "{at}");
                assert!(!flag(&step.expect, "allowed"));
                limiter.assert_points(step, &at);
                assert_eq!(
                    limiter.before_next(step.now()),
                    Span::from_nanos(duration - now),
                    "{at}"
                );
            }
            // After the window only the block of upstream refuses, and both start afresh at its end.
            now => {
                let over =
                    now >= blocked_from(vector) + int(&vector.config, "block_duration_s") * SECOND;
                assert_eq!(flag(&step.expect, "allowed"), over, "{at}");
                if over {
                    limiter.step(step, Span::ZERO, &at);
                }
            }
        }
    }
}

fn blocked_from(vector: &Vector) -> u64 {
    let refused = vector.steps.iter().find(|step| !flag(&step.expect, "allowed"));
    refused.expect("a step that crosses the limit").at
}

/// Compares a burst limit that is checked only when the main one refuses; the nearer end is reported.
fn bursty(vector: &Vector) {
    let mut main = Limiter::new(&vector.config["limiter"]);
    let mut burst = Limiter::new(&vector.config["burst"]);
    for (nth, step) in vector.steps.iter().enumerate() {
        let at = format!("{} step {nth}", vector.id);
        let mut next = main.before_next(step.now());
        match step.op.as_str() {
            "consume" => {
                let passed = main.consume(step.now(), points(step));
                next = main.before_next(step.now());
                let passed = passed || {
                    let passed = burst.consume(step.now(), points(step));
                    next = next.min(burst.before_next(step.now()));
                    passed
                };
                assert_eq!(passed, flag(&step.expect, "allowed"), "{at}");
            }
            "get" => {}
            other => panic!("{at}: unknown operation {other}"),
        }
        main.assert_points(step, &at);
        assert_eq!(next, millis(step), "{at}: before next");
    }
}

/// Compares a limiter with a second one that decides while the store is down.
///
/// Each has its own count. The choice between them is the rule's `on_error`, not part of this crate.
fn insurance(vector: &Vector) {
    let mut store = Limiter::new(&vector.config);
    let mut insurance = Limiter::new(&vector.config["insurance"]);
    let mut up = true;
    for (nth, step) in vector.steps.iter().enumerate() {
        match step.op.as_str() {
            "store_available" => up = flag(&step.args, "up"),
            _ => {
                let limiter = if up { &mut store } else { &mut insurance };
                limiter.step(step, Span::ZERO, &format!("{} step {nth}", vector.id));
            }
        }
    }
}

/// Checks a trace of store errors, which are reported before any limit decides.
fn store_down(vector: &Vector) {
    for step in &vector.steps {
        match step.op.as_str() {
            "store_available" => assert!(!flag(&step.args, "up")),
            "consume" | "get" => assert_eq!(step.expect["error"], "store down"),
            other => panic!("{}: unknown operation {other}", vector.id),
        }
    }
}

/// Checks that a negative number of points allows nothing; our amounts have no sign, and zero is invalid.
fn below_zero(vector: &Vector) {
    assert!(signed(&vector.config, "points") < 0);
    assert!(vector.steps.iter().all(|step| !flag(&step.expect, "allowed")));
    let length = Span::from_secs(int(&vector.config, "duration_s"));
    let refused = FixedWindow::new(0, Window::FirstHit { length }).map(drop);
    assert_eq!(refused, Err(InvalidLimit::ZeroAmount));
}

#[test]
fn every_trace_matches_upstream() {
    let vectors = load("rate-limiter-flexible.json");
    assert_eq!(vectors.len(), 8);
    for vector in &vectors {
        match vector.id.strip_prefix("rate-limiter-flexible/").expect("one of theirs") {
            "memory/weighted" => matches_upstream(vector),
            "memory/zero_points_consume_is_peek" => peek_opens_no_window(vector),
            "memory/block_duration" | "store/block_duration" => up_to_the_block(vector),
            "memory/negative_points_limit" => below_zero(vector),
            "bursty/basic" => bursty(vector),
            "store/insurance" => insurance(vector),
            "store/no_insurance_error" => store_down(vector),
            other => panic!("unknown vector {other}"),
        }
    }
}
