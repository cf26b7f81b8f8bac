//! Traces of resilience4j: permits per cycle, reserved ahead into later cycles.
//!
//! The limit is a fixed window aligned to the start of the limiter. A negative `available` is borrowed
//! from later windows.

mod vectors;

use tollgate_core::{Algorithm, Carry, FixedWindow, FixedWindowState, Retry, Span, Time, Window};
use vectors::{Step, Vector, flag, int, load, nanos, signed};

struct Limiter {
    window: FixedWindow,
    state: FixedWindowState,
    length: Span,
    timeout: Span,
    /// The time of the last reservation: upstream updates cycles only then, under the limit of then.
    last_reserved: Time,
    /// The amount by which our window was cut when the limit was lowered, and the time.
    ///
    /// Upstream keeps more than a lowered limit until the cycle ends; ours is cut at once.
    cut: (i128, Time),
}

fn window(limit: u64, length: Span) -> FixedWindow {
    let layout = Window::Aligned { length, phase: Time::EPOCH };
    FixedWindow::new(limit, layout).unwrap().reserve_across_windows()
}

impl Limiter {
    fn new(vector: &Vector, length: Span) -> Limiter {
        let window = window(int(&vector.config, "limit_for_period"), length);
        let timeout = nanos(&vector.config, "timeout_ns");
        let state = window.fresh(Time::EPOCH);
        Limiter {
            window,
            state,
            length,
            timeout,
            last_reserved: Time::EPOCH,
            cut: (0, Time::EPOCH),
        }
    }

    fn available(&self, now: Time) -> i128 {
        i128::from(self.window.capacity()) - i128::from(self.window.used(&self.state, now))
    }

    fn cut_at(&self, now: Time) -> i128 {
        let nth = |time: Time| time.as_nanos() / self.length.as_nanos();
        if nth(now) == nth(self.cut.1) { self.cut.0 } else { 0 }
    }

    /// Reserves permits and returns the wait, if they are granted.
    fn reserve(&mut self, now: Time, permits: u64) -> Option<Span> {
        self.last_reserved = now;
        let verdict = self.window.reserve(&mut self.state, now, permits, self.timeout);
        verdict.allowed.then_some(verdict.wait)
    }

    fn wait_for_one(&self, now: Time) -> Span {
        match self.window.decide(&mut self.state.clone(), now, 1).retry {
            Retry::Now => Span::ZERO,
            Retry::After(span) => span,
            Retry::Never => panic!("a limit of at least one holds one"),
        }
    }

    /// Takes everything that is left of this window.
    fn drain(&mut self, now: Time) -> u64 {
        let left = self.window.peek(&self.state, now).remaining;
        self.window.charge(&mut self.state, now, left as i64);
        left
    }

    /// Changes the limit; the amount left at `as_of` stays, cut to the new limit.
    fn change_limit(&mut self, limit: u64, as_of: Time) {
        let new = window(limit, self.length);
        let left = Carry::AsIs.apply(self.available(as_of), self.window.capacity(), limit);
        self.cut = (self.available(as_of) - left, as_of);
        self.state = new.with_remaining(as_of, left);
        self.window = new;
    }
}

fn perform(limiter: &mut Limiter, step: &Step, at: &str) {
    match step.op.as_str() {
        "metrics" => {}
        "reserve" => {
            let wait = limiter.reserve(step.now(), int(&step.args, "permits"));
            let wait = wait.map_or(-1, |span| span.as_nanos() as i64);
            assert_eq!(wait, signed(&step.expect, "wait_ns"), "{at}: wait");
        }
        "change_timeout" => limiter.timeout = nanos(&step.args, "timeout_ns"),
        "change_limit_for_period" => {
            limiter.change_limit(int(&step.args, "limit"), limiter.last_reserved);
        }
        other => panic!("{at}: unknown operation {other}"),
    }
}

fn atomic(vector: &Vector) {
    let mut limiter = Limiter::new(vector, nanos(&vector.config, "limit_refresh_period_ns"));
    for (nth, step) in vector.steps.iter().enumerate() {
        let at = format!("{} step {nth}", vector.id);
        perform(&mut limiter, step, &at);
        let upstream = i128::from(signed(&step.expect, "available"));
        let cut = limiter.cut_at(step.now());
        assert_eq!(limiter.available(step.now()), upstream - cut, "{at}: available");
        let one = nanos(&step.expect, "nanos_to_wait_for_one");
        assert_eq!(limiter.wait_for_one(step.now()), one, "{at}: wait for one");
    }
}

/// Compares a trace with a drain.
///
/// Upstream drains the count of the previous cycle, and forgives debt. Ours drains what is available:
/// nothing is left, and debt stays.
fn drained(vector: &Vector, left_after: i128, then: Option<Option<Span>>) {
    assert!(vector.known_upstream_bug);
    let mut limiter = Limiter::new(vector, nanos(&vector.config, "limit_refresh_period_ns"));
    let mut drained = false;
    for step in &vector.steps {
        match (step.op.as_str(), drained) {
            ("metrics", false) => {}
            ("metrics", true) => assert_eq!(limiter.available(step.now()), left_after),
            ("drain", _) => {
                limiter.drain(step.now());
                assert_eq!(limiter.available(step.now()), left_after);
                drained = true;
            }
            ("reserve", false) => {
                let wait = limiter.reserve(step.now(), int(&step.args, "permits")).unwrap();
                assert_eq!(wait, nanos(&step.expect, "wait_ns"));
            }
            ("reserve", true) => {
                let wait = limiter.reserve(step.now(), int(&step.args, "permits"));
                assert_eq!(Some(wait), then, "{}", vector.id);
            }
            (other, _) => panic!("{}: unknown operation {other}", vector.id),
        }
    }
}

/// Runs a trace of steps without times, where a tick is the end of a window.
fn semaphore(vector: &Vector, mut check: impl FnMut(&Step, Option<bool>, i128)) {
    let mut limiter = Limiter::new(vector, Span::from_secs(1));
    let mut now = Time::EPOCH;
    for step in &vector.steps {
        let acquired = match step.op.as_str() {
            "acquire" => {
                let permits = int(&step.args, "permits");
                Some(limiter.window.decide(&mut limiter.state, now, permits).allowed)
            }
            "refresh_tick" => {
                now = now + Span::from_secs(1);
                None
            }
            "change_limit_for_period" => {
                limiter.change_limit(int(&step.args, "limit"), now);
                None
            }
            "drain" => {
                limiter.drain(now);
                None
            }
            other => panic!("{}: unknown operation {other}", vector.id),
        };
        check(step, acquired, limiter.available(now));
    }
}

fn matches_upstream(step: &Step, acquired: Option<bool>, available: i128) {
    if let Some(acquired) = acquired {
        assert_eq!(acquired, flag(&step.expect, "acquired"));
    }
    assert_eq!(available, signed(&step.expect, "available").into());
}

/// Checks a lowered limit.
///
/// Upstream keeps more than the new limit and then stops refreshing. Ours is cut at once, and every
/// later window has the new limit.
fn limit_down(vector: &Vector) {
    let mut results = Vec::new();
    semaphore(vector, |_, acquired, available| results.push((acquired, available)));
    let (yes, no) = (Some(true), Some(false));
    let ours = [(yes, 4), (None, 2), (yes, 1), (None, 2), (no, 2), (None, 2), (yes, 0)];
    assert_eq!(results, ours);
}

#[test]
fn every_trace_matches_upstream() {
    let vectors = load("resilience4j.json");
    assert_eq!(vectors.len(), 21);
    for vector in &vectors {
        let id = vector.id.strip_prefix("resilience4j/").expect("a resilience4j vector");
        match id {
            "atomic/drain_after_cycle_rollover" => drained(vector, 0, Some(None)),
            "atomic/drain_after_rollover_partial" => drained(vector, 0, None),
            "atomic/drain_in_debt" => drained(vector, -4, Some(Some(Span::from_millis(750)))),
            "semaphore/limit_down_breaks_refresh" => limit_down(vector),
            _ if id.starts_with("atomic/") => atomic(vector),
            _ if id.starts_with("semaphore/") => semaphore(vector, matches_upstream),
            // An adaptive bulkhead that resilience4j never released; tollgate has no such controller.
            "adaptive_bulkhead/slow_start_doubles"
            | "adaptive_bulkhead/failure_enters_congestion_avoidance"
            | "adaptive_bulkhead/back_to_slow_start_at_minimum" => {
                assert!(vector.steps.iter().all(|step| step.op == "call"));
            }
            _ => panic!("unknown vector {id}"),
        }
    }
}
