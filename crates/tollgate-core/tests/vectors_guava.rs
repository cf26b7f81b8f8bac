//! Traces of Guava's `RateLimiter`: bursty is a meter that pays later, warming up is `WarmUp`.
//!
//! Guava truncates every wait to whole microseconds, one to three times a request; tollgate truncates
//! nothing. So each trace is replayed twice. First every step starts from the state that Guava
//! reported after the previous one, and must agree within the stated tolerance (a microsecond). Then
//! the whole trace runs on our own state, and may differ by a microsecond more for each request that
//! Guava truncated since the limiter was last idle.

mod vectors;

use serde_json::Value;
use tollgate_core::{Algorithm, Carry, InvalidLimit, Meter, MeterState, Span, Time, Verdict};
use tollgate_core::{WarmUp, WarmUpState};
use vectors::{Step, Vector, flag, int, load};

#[test]
fn every_step_matches_upstream() {
    for vector in load("guava.json") {
        assert!(!vector.known_upstream_bug, "{}", vector.id);
        let mut replay = Replay::new(&vector);
        for (n, step) in vector.steps.iter().enumerate() {
            replay.step(step, 0.0, &format!("{} step {n}", vector.id));
            replay.adopt(step);
        }
    }
}

#[test]
fn every_trace_matches_upstream() {
    for vector in load("guava.json") {
        let mut replay = Replay::new(&vector);
        let mut truncated = 0.0;
        for (n, step) in vector.steps.iter().enumerate() {
            if replay.limiter.is_fresh(Time::from_nanos(step.at)) {
                truncated = 0.0; // The truncation has no effect on an idle limiter.
            }
            replay.step(step, truncated, &format!("{} step {n}", vector.id));
            truncated += 1.0;
        }
    }
}

/// A limiter and its state.
enum Limiter {
    Bursty(Meter, MeterState),
    WarmingUp(WarmUp, WarmUpState),
}

impl Limiter {
    fn reserve(&mut self, now: Time, cost: u64, max_wait: Span) -> Verdict {
        match self {
            Limiter::Bursty(meter, state) => meter.reserve(state, now, cost, max_wait),
            Limiter::WarmingUp(warm_up, state) => warm_up.reserve(state, now, cost, max_wait),
        }
    }

    fn is_fresh(&self, now: Time) -> bool {
        match self {
            Limiter::Bursty(meter, state) => meter.full_at(state) <= now,
            Limiter::WarmingUp(warm_up, state) => warm_up.full_at(state) <= now,
        }
    }
}

/// The replay of a trace, in the microseconds and permits of Guava.
struct Replay {
    limiter: Limiter,
    rate: f64,
    /// The time until no more permits are saved: burst or warm-up.
    depth_us: f64,
    /// The cold factor; zero for a bursty limiter.
    cold_factor: u32,
    tolerance_us: f64,
}

impl Replay {
    fn new(vector: &Vector) -> Replay {
        let (config, created) =
            (&vector.config, Time::from_nanos(int(&vector.config, "created_at")));
        let rate = float(config, "permits_per_second");
        let bursty = config.get("max_burst_seconds").is_some();
        let (depth_us, cold_factor) = match bursty {
            true => (float(config, "max_burst_seconds") * 1e6, 0),
            false => (float(config, "warmup_period_us"), int(config, "cold_factor") as u32),
        };
        let limiter = match bursty {
            true => {
                let meter = bursty_meter(rate, depth_us).unwrap();
                Limiter::Bursty(meter, meter.fresh(created))
            }
            false => {
                let warm_up = warming_up(rate, depth_us, cold_factor).unwrap();
                Limiter::WarmingUp(warm_up, warm_up.fresh(created))
            }
        };
        let tolerance_us = float(&vector.tolerance, "wait_us");
        assert_eq!(float(&vector.tolerance, "next_free_us"), tolerance_us, "{}", vector.id);
        assert_eq!(float(&vector.tolerance, "stored_permits"), 1e-9, "{}", vector.id);
        let replay = Replay { limiter, rate, depth_us, cold_factor, tolerance_us };
        if let Some(derived) = config.get("derived") {
            let initial = float(derived, "initial_stored");
            assert!((replay.read(created).0 - initial).abs() < 1e-9, "{}: starts cold", vector.id);
        }
        replay
    }

    /// Returns the most permits that are saved.
    fn max_permits(&self) -> f64 {
        self.depth_us / self.saving_us()
    }

    /// Returns the time that saves one permit.
    fn saving_us(&self) -> f64 {
        let cold = f64::from(self.cold_factor);
        let slower = if cold == 0.0 { 1.0 } else { 2.0 * (cold + 1.0) / (cold + 5.0) };
        slower * 1e6 / self.rate
    }

    /// Returns the saved permits and the next free microsecond.
    fn read(&self, now: Time) -> (f64, f64) {
        let now = us(now.as_nanos(), 0, 1);
        match &self.limiter {
            Limiter::Bursty(meter, state) => {
                let (ns, frac) = state.parts();
                let ahead = (us(ns, frac, meter.scale()) - now).max(0.0);
                let saved = (self.depth_us - ahead).max(0.0) / self.saving_us();
                (saved, now + (ahead - self.depth_us).max(0.0))
            }
            Limiter::WarmingUp(warm_up, state) => {
                let (stored, free) = state.parts();
                let stored = us(stored.0, stored.1, warm_up.scale());
                (stored / self.saving_us(), us(free.0, free.1, warm_up.scale()))
            }
        }
    }

    /// Continues from the state that Guava reported.
    fn adopt(&mut self, step: &Step) {
        let Some(stored) = step.expect.get("stored_permits") else { return };
        let saved_us = stored.as_f64().unwrap() * self.saving_us();
        let next_free = int(&step.expect, "next_free_us") * 1000;
        let parts = |us: f64, scale: u64| {
            let ns = us * 1000.0;
            (ns as u64, (ns.fract() * scale as f64) as u64)
        };
        match &mut self.limiter {
            Limiter::Bursty(meter, state) => {
                let owed = parts(self.depth_us - saved_us, meter.scale());
                *state = MeterState::from_parts(next_free + owed.0, owed.1);
            }
            Limiter::WarmingUp(warm_up, state) => {
                let saved = parts(saved_us, warm_up.scale());
                *state = WarmUpState::from_parts(saved, (next_free, 0));
            }
        }
    }

    fn step(&mut self, step: &Step, truncated_us: f64, what: &str) {
        let now = Time::from_nanos(step.at);
        let tolerance_us = self.tolerance_us + truncated_us + 1e-3; // and a nanosecond of ours
        if step.expect.get("error").is_some() {
            return self.refused(step, now, what);
        }
        match step.op.as_str() {
            "acquire" | "reserve" => {
                let verdict = self.limiter.reserve(now, int(&step.args, "permits"), Span::MAX);
                assert!(verdict.allowed, "{what}");
                close(verdict.wait, step, tolerance_us, what);
            }
            "try_acquire" => {
                let timeout = Span::from_micros(int(&step.args, "timeout_us"));
                let verdict = self.limiter.reserve(now, int(&step.args, "permits"), timeout);
                assert_eq!(verdict.allowed, flag(&step.expect, "acquired"), "{what}: acquired");
                close(verdict.wait, step, tolerance_us, what);
            }
            "set_rate" => {
                self.set_rate(float(&step.args, "permits_per_second"), now).unwrap();
                assert!((self.rate - float(&step.expect, "rate")).abs() < 1e-9, "{what}: rate");
                let most = float(&step.expect, "max_permits");
                assert!((self.max_permits() - most).abs() < 1e-9, "{what}: max");
            }
            other => panic!("{what}: unknown call {other}"),
        }
        let (stored, next_free) = self.read(now);
        let late = next_free - float(&step.expect, "next_free_us");
        assert!(late.abs() <= tolerance_us, "{what}: next free {late} us late");
        let less = float(&step.expect, "stored_permits") - stored;
        let most = 1e-9 + truncated_us / self.saving_us();
        assert!(less.abs() <= most, "{what}: {less} fewer permits saved");
    }

    fn set_rate(&mut self, rate: f64, now: Time) -> Result<(), InvalidLimit> {
        match &mut self.limiter {
            Limiter::Bursty(meter, state) => {
                let changed = bursty_meter(rate, self.depth_us)?;
                *state = changed.carry(meter, state, now, Carry::Proportional);
                *meter = changed;
            }
            Limiter::WarmingUp(warm_up, state) => {
                let changed = warming_up(rate, self.depth_us, self.cold_factor)?;
                *state = changed.carry(warm_up, state, now);
                *warm_up = changed;
            }
        }
        self.rate = rate;
        Ok(())
    }

    /// Checks that invalid input of Guava cannot be expressed here, is refused, or spends nothing.
    fn refused(&mut self, step: &Step, now: Time, what: &str) {
        let before = self.read(now);
        if step.op == "set_rate" {
            let rate = step.args["permits_per_second"].as_f64();
            let refused = rate.is_none_or(|rate| rate < 0.0 || self.set_rate(rate, now).is_err());
            assert!(refused, "{what}: a rate that is none");
        } else if let Some(permits) = step.args["permits"].as_u64() {
            assert_eq!(permits, 0, "{what}: costs are not negative");
            self.limiter.reserve(now, permits, Span::ZERO);
        }
        assert_eq!(self.read(now), before, "{what}: nothing changed");
    }
}

fn bursty_meter(rate: f64, burst_us: f64) -> Result<Meter, InvalidLimit> {
    let (rate, period) = ratio(rate);
    Ok(Meter::with_depth(rate, period, span(burst_us))?.initial(0)?.pay_later())
}

fn warming_up(rate: f64, warm_up_us: f64, cold_factor: u32) -> Result<WarmUp, InvalidLimit> {
    let (rate, period) = ratio(rate);
    WarmUp::new(rate, period, span(warm_up_us))?.cold_factor(cold_factor)
}

/// Converts a rate to whole permits in whole seconds: 1.125 a second are 9 in 8 s.
fn ratio(rate: f64) -> (u64, Span) {
    let whole = |secs: &u64| (rate * *secs as f64).fract() < 1e-9;
    let secs = (1..1000).find(whole).expect("a simple fraction");
    ((rate * secs as f64) as u64, Span::from_secs(secs))
}

fn close(wait: Span, step: &Step, tolerance_us: f64, what: &str) {
    let late = us(wait.as_nanos(), 0, 1) - float(&step.expect, "wait_us");
    assert!(late.abs() <= tolerance_us, "{what}: waits {late} us longer");
}

fn us(ns: u64, frac: u64, scale: u64) -> f64 {
    (ns as f64 + frac as f64 / scale as f64) / 1e3
}

fn span(us: f64) -> Span {
    Span::from_nanos((us * 1000.0).round() as u64)
}

fn float(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number at {key} in {value}"))
}
