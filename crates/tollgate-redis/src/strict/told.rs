//! What the Lua is told of a check: its kind, and the numbers that kind takes, in the order in
//! which `lua/*.lua` reads them.

use tollgate::{Action, Check, Engine, Span, StoreError, Time};
use tollgate_core::{
    Algorithm, Calendar, Concurrency, FixedWindow, Meter, SlidingLog, SlidingWindow, WarmUp,
    WarmUpParts, Window,
};

use super::text::micros;
use super::units::{MAX, Units};
use crate::script::{Families, families_of};
use crate::words::Words;

/// Numbers that are multiplied with one another must stay below this.
const MAX_FACTOR: u64 = (1 << 51) - 1;

/// What an estimate of the server's time may be off by before a calendar's period has to be
/// looked up again.
const DOUBT: Span = Span::from_secs(3_600);

/// How a check is put to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The algorithm of those families was told all it needs.
    Yes(Families),
    /// Its numbers are too large for Lua.
    TooLarge,
}

/// Tells of checks.
pub(super) struct Teller<'w> {
    pub(super) words: &'w mut Words,
    pub(super) action: Action,
    /// About what time it is at the server.
    pub(super) around: Time,
}

/// The letter of an action that changes something.
pub(super) fn letter(action: Action) -> &'static str {
    match action {
        Action::Take { .. } => "T",
        Action::Refund => "R",
        Action::Release { .. } => "X",
        _ => "S",
    }
}

impl Teller<'_> {
    pub(super) fn tell(&mut self, check: &Check<'_>) -> Result<Told, StoreError> {
        self.words.push(if check.former.is_some() { b"F" } else { b"-" });
        let limit = check.limit.engine();
        match (self.action, limit) {
            (Action::Reset, _) => return Ok(self.kind(b'd')),
            (Action::Release { .. }, Engine::Concurrent(_)) => {}
            (Action::Refund, Engine::Concurrent(_)) if check.cost == 0 => {
                return Ok(self.kind(b'n'));
            }
            // What was spent on a rate stays spent, but a key that starts with less than all
            // begins when it is first named.
            (Action::Release { .. }, Engine::Meter(meter)) if !meter.is_full_on_arrival() => {}
            (Action::Release { .. }, _) => return Ok(self.kind(b'n')),
            _ => {}
        }
        let cost = match self.action {
            Action::Release { .. } => 0,
            _ => check.cost.min(i64::MAX as u64),
        };
        let told = match limit {
            Engine::Meter(meter) => self.meter(meter, check, cost),
            Engine::FixedWindow(window) => self.fixed_window(window, check, cost),
            Engine::SlidingWindow(window) => self.sliding_window(window, check, cost),
            Engine::SlidingSlots(slots) => self.sliding_log(slots.log(), check, cost),
            Engine::SlidingLog(log) => self.sliding_log(log, check, cost),
            Engine::Concurrent(places) => self.concurrency(places, check, cost),
            Engine::WarmUp(warm_up) => self.warm_up(warm_up, check, cost),
            Engine::Adaptive(_) | Engine::Unlimited => Some(Told::TooLarge),
        };
        told.ok_or_else(|| {
            StoreError::new(format!(
                "Redis counts in microseconds: write the limit {} in whole ones",
                check.limit
            ))
        })
    }

    fn kind(&mut self, kind: u8) -> Told {
        self.words.push(&[kind]);
        Told::Yes(families_of(kind))
    }

    /// How long the check may wait, in whole microseconds.
    fn wait(&self, check: &Check<'_>, counts_denied: bool) -> u64 {
        match self.action {
            Action::Take { max_wait } if !counts_denied => {
                (max_wait.min(check.patience).as_nanos() / 1_000).min(MAX)
            }
            _ => 0,
        }
    }

    fn is_take(&self) -> bool {
        matches!(self.action, Action::Take { .. })
    }

    fn meter(&mut self, meter: &Meter, check: &Check<'_>, cost: u64) -> Option<Told> {
        if self.is_take() && !meter.can_hold(check.cost) {
            return Some(match meter.is_full_on_arrival() {
                true => self.kind(b'x'),
                false => Told::TooLarge,
            });
        }
        let Some(units) = Units::of(meter) else { return Some(Told::TooLarge) };
        let parts = meter.parts();
        let (time, depth) = (units.written(meter.time_of(cost)), units.written(parts.depth));
        if time.0 > MAX / 2 || depth.0 > MAX / 2 {
            return Some(Told::TooLarge);
        }
        let wait = self.wait(check, false);
        if meter.as_plain().is_some() {
            let told = self.kind(b'm');
            let bound = (depth.0 + wait).min(MAX);
            self.numbers(&[units.scale, time.0, time.1, bound, depth.1]);
            return Some(told);
        }
        let (interval, offset) = match parts.interval {
            None => (0, 0),
            Some((interval, offset)) => (whole(interval)?, whole(offset)?),
        };
        let owed = units.written(parts.owed_at_start);
        let told = self.kind(b'M');
        self.numbers(&[units.scale, time.0, time.1, depth.0, depth.1, wait, interval, offset]);
        self.numbers(&[owed.0, owed.1]);
        match parts.smooth.map(|smooth| units.written(smooth)) {
            Some((us, part)) => self.numbers(&[us.min(MAX), part]),
            None => {
                self.words.push(b"-1");
                self.numbers(&[0]);
            }
        }
        self.numbers(&[parts.pays_later.into()]);
        Some(told)
    }

    fn fixed_window(&mut self, window: &FixedWindow, check: &Check<'_>, cost: u64) -> Option<Told> {
        let (limit, counts) = (window.capacity(), window.counts_denied());
        if limit > MAX || cost > MAX {
            return Some(Told::TooLarge);
        }
        let told = match window.window() {
            Window::Aligned { length, phase } => {
                let (length, phase) = (whole(length.as_nanos())?, whole(phase.as_nanos())?);
                let told = self.kind(b'f');
                self.numbers(&[limit, length, phase]);
                told
            }
            Window::FirstHit { length } => {
                let length = whole(length.as_nanos())?;
                let told = self.kind(b'f');
                self.numbers(&[limit, length]);
                self.words.push(b"-1");
                told
            }
            Window::Calendar(calendar) => {
                let (from, to) = period(&**calendar, self.around);
                let told = self.kind(b'c');
                self.numbers(&[limit, micros(from), micros(to).min(MAX)]);
                told
            }
        };
        let passes = window.can_hold(check.cost);
        self.numbers(&[counts.into(), cost, self.wait(check, counts), passes.into()]);
        Some(told)
    }

    fn sliding_window(
        &mut self,
        window: &SlidingWindow,
        check: &Check<'_>,
        cost: u64,
    ) -> Option<Told> {
        let (limit, counts) = (window.capacity(), window.counts_denied());
        let length = whole(window.length().as_nanos())?;
        if limit > MAX_FACTOR || cost > MAX_FACTOR || length > MAX_FACTOR {
            return Some(Told::TooLarge);
        }
        let (wait, passes) = (self.wait(check, counts), window.can_hold(check.cost));
        let told = self.kind(b'w');
        self.numbers(&[limit, length, counts.into(), cost, wait, passes.into()]);
        Some(told)
    }

    fn sliding_log(&mut self, log: &SlidingLog, check: &Check<'_>, cost: u64) -> Option<Told> {
        let (limit, counts) = (log.capacity(), log.counts_denied());
        let (window, gap) = (whole(log.window().as_nanos())?, whole(log.gap().as_nanos())?);
        let slot = if log.slot() == 1 { 1 } else { whole(log.slot())? };
        if limit > MAX || cost > MAX || window > MAX / 4 {
            return Some(Told::TooLarge);
        }
        let (wait, passes) = (self.wait(check, counts), log.can_hold(check.cost));
        let told = self.kind(b'l');
        self.numbers(&[limit, window, gap, slot, counts.into(), cost, wait, passes.into()]);
        Some(told)
    }

    fn warm_up(&mut self, limit: &WarmUp, check: &Check<'_>, cost: u64) -> Option<Told> {
        if self.is_take() && !limit.can_hold(check.cost) {
            return Some(self.kind(b'x'));
        }
        let WarmUpParts { rate, warm_up, cold_factor, scale, .. } = limit.parts();
        let factor = u128::from(cold_factor);
        let whole_warm_up = whole(warm_up)?;
        // A nanosecond's worth of warming up at that rate; the engine shifts larger numbers.
        let quarter = u128::from(warm_up) * u128::from(rate);
        let per_micro = u128::from(scale) * 1_000;
        if quarter >= 1 << 63 || per_micro > u128::from(MAX / 2) || warm_up > MAX {
            return Some(Told::TooLarge);
        }
        let in_micros = |units: u128| [units / per_micro, units % per_micro].map(clamped);
        let written = |(ns, frac): (u64, u64)| {
            in_micros(u128::from(ns) * u128::from(scale) + u128::from(frac))
        };
        let (time, idle) = (written(limit.time_of(cost)), written(limit.idle_for(cost)));
        if time[0] > MAX / 2 {
            return Some(Told::TooLarge);
        }
        let (warm, cold) = (in_micros((factor + 1) * quarter), in_micros(4 * quarter));
        let coldest = u128::from(warm_up) * (factor - 1) / (factor + 1);
        let wait = self.wait(check, false);
        let told = self.kind(b'u');
        self.numbers(&[clamped(per_micro), scale, time[0], time[1], idle[0], idle[1]]);
        self.numbers(&[whole_warm_up, warm[0], warm[1], cold[0], cold[1], clamped(coldest), wait]);
        Some(told)
    }

    fn concurrency(&mut self, places: &Concurrency, check: &Check<'_>, cost: u64) -> Option<Told> {
        let (limit, lease) = (places.capacity(), whole(places.lease().as_nanos())?);
        let passes = check.cost <= limit;
        if self.is_take() && !passes {
            return Some(self.kind(b'x'));
        }
        if limit > MAX || lease > MAX / 4 {
            return Some(Told::TooLarge);
        }
        let told = self.kind(b'p');
        // Giving up a place gives up all of it.
        self.numbers(&[limit, lease, if self.is_take() { cost } else { 0 }]);
        self.words.push(format!("{:020}", check.lease).as_bytes());
        self.numbers(&[passes.into()]);
        Some(told)
    }

    fn numbers(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|number| self.words.number(*number));
    }
}

/// The number, or the largest of its kind.
fn clamped(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Whole microseconds, or none.
fn whole(nanos: u64) -> Option<u64> {
    nanos.is_multiple_of(1_000).then_some(nanos / 1_000)
}

/// From when on, and until when, it is the calendar's period of `around`.
fn period(calendar: &dyn Calendar, around: Time) -> (Time, Time) {
    let (to, earlier) = (calendar.period_end(around), around - DOUBT);
    match calendar.period_end(earlier) {
        end if end == to => (earlier, to),
        begin => (begin, to),
    }
}
