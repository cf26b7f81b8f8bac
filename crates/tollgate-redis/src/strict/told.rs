//! What the Lua is told of a check: its kind, and the numbers that kind takes, in the order in
//! which `lua/*.lua` reads them.

use smallvec::SmallVec;
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
    words: &'w mut Words,
    action: Action,
    /// About what time it is at the server.
    around: Time,
    /// Whether the check at hand may have its counter elsewhere yet.
    elsewhere: bool,
}

/// The letter of an action that changes something.
pub(super) fn letter(action: Action) -> &'static str {
    match action {
        Action::Take { .. } => "T",
        Action::Refund => "R",
        Action::Release { .. } => "X",
        Action::Renew => "K",
        _ => "S",
    }
}

impl<'w> Teller<'w> {
    pub(super) fn new(words: &'w mut Words, action: Action, around: Time) -> Teller<'w> {
        Teller { words, action, around, elsewhere: false }
    }

    pub(super) fn tell(&mut self, check: &Check<'_>) -> Result<Told, StoreError> {
        self.elsewhere = check.former.is_some();
        let limit = check.limit.engine();
        match (self.action, limit) {
            (Action::Reset, _) => return Ok(self.kind(b'd')),
            (Action::Release { .. } | Action::Renew, Engine::Concurrent(_)) => {}
            (Action::Refund, Engine::Concurrent(_)) if check.cost == 0 => {
                return Ok(self.kind(b'n'));
            }
            // What was spent on a rate stays spent, but a key that starts with less than all
            // begins when it is first named.
            (Action::Release { .. } | Action::Renew, Engine::Meter(meter))
                if !meter.is_full_on_arrival() => {}
            (Action::Release { .. } | Action::Renew, _) => return Ok(self.kind(b'n')),
            _ => {}
        }
        let cost = match self.action {
            Action::Release { .. } | Action::Renew => 0,
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

    /// A kind that takes no numbers.
    fn kind(&mut self, kind: u8) -> Told {
        self.told(kind, &[])
    }

    fn told(&mut self, kind: u8, numbers: &[f64]) -> Told {
        let kind_and_former = [kind, b'F'];
        self.words.push(&kind_and_former[..1 + usize::from(self.elsewhere)]);
        self.words.doubles(numbers);
        Told::Yes(families_of(kind))
    }

    /// What the check has to leave of its limit.
    fn reserve(&self, check: &Check<'_>, limit: &impl Algorithm) -> u64 {
        match check.reserve.is_none() || !self.is_take() {
            true => 0,
            false => check.reserve.amount(limit.capacity()).min(limit.spare(check.cost)),
        }
    }

    /// What may be spent of a limit for the check to pass; less than nothing if it never can.
    fn most(&self, check: &Check<'_>, limit: &impl Algorithm) -> f64 {
        match limit.can_hold(check.cost) {
            true => double(limit.capacity() - self.reserve(check, limit)),
            false => -1.0,
        }
    }

    /// How long the check may wait, in whole microseconds: not at all where it has no line to wait in.
    fn wait(&self, check: &Check<'_>, limit: &impl Algorithm) -> u64 {
        match self.action {
            Action::Take { max_wait }
                if !limit.counts_denied() && self.reserve(check, limit) == 0 =>
            {
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
        let time = units.written(meter.time_of(cost));
        let kept = meter.time_of(self.reserve(check, meter));
        let depth = units.less(parts.depth, kept);
        if time.0 > MAX / 2 || depth.0 > MAX / 2 {
            return Some(Told::TooLarge);
        }
        let wait = self.wait(check, meter);
        if meter.as_plain().is_some() {
            let bound = (depth.0 + wait).min(MAX);
            let numbers = [units.scale, time.0, time.1, bound, depth.1].map(double);
            return Some(self.told(b'm', &numbers));
        }
        let (interval, offset) = match parts.interval {
            None => (0, 0),
            Some((interval, offset)) => (whole(interval)?, whole(offset)?),
        };
        let owed = units.written(parts.owed_at_start);
        let smooth = parts.smooth.map(|smooth| units.written(smooth));
        let smooth = smooth.map_or([-1.0, 0.0], |(us, part)| [us.min(MAX), part].map(double));
        let numbers = [units.scale, time.0, time.1, depth.0, depth.1, wait, interval, offset];
        let mut all = SmallVec::<[f64; 13]>::from_slice(&numbers.map(double));
        all.extend([owed.0, owed.1].map(double));
        all.extend(smooth);
        all.push(double(parts.pays_later.into()));
        Some(self.told(b'M', &all))
    }

    fn fixed_window(&mut self, window: &FixedWindow, check: &Check<'_>, cost: u64) -> Option<Told> {
        let (limit, counts) = (window.capacity(), window.counts_denied());
        if limit > MAX || cost > MAX {
            return Some(Told::TooLarge);
        }
        let (kind, [first, second]) = match window.window() {
            Window::Aligned { length, phase } => {
                (b'f', [whole(length.as_nanos())?, whole(phase.as_nanos())?].map(double))
            }
            Window::FirstHit { length } => (b'f', [double(whole(length.as_nanos())?), -1.0]),
            Window::Calendar(calendar) => {
                let (from, to) = period(&**calendar, self.around);
                (b'c', [micros(from), micros(to).min(MAX)].map(double))
            }
        };
        let (most, wait) = (self.most(check, window), self.wait(check, window));
        let [counts, cost, wait] = [counts.into(), cost, wait].map(double);
        Some(self.told(kind, &[double(limit), first, second, counts, cost, wait, most]))
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
        let (most, wait) = (self.most(check, window), self.wait(check, window));
        let [length, counts, cost, wait] = [length, counts.into(), cost, wait].map(double);
        Some(self.told(b'w', &[length, counts, cost, wait, most]))
    }

    fn sliding_log(&mut self, log: &SlidingLog, check: &Check<'_>, cost: u64) -> Option<Told> {
        let (limit, counts) = (log.capacity(), log.counts_denied());
        let (window, gap) = (whole(log.window().as_nanos())?, whole(log.gap().as_nanos())?);
        let slot = if log.slot() == 1 { 1 } else { whole(log.slot())? };
        if limit > MAX || cost > MAX || window > MAX / 4 {
            return Some(Told::TooLarge);
        }
        let (most, wait) = (self.most(check, log), self.wait(check, log));
        let numbers = [limit, window, gap, slot, counts.into(), cost, wait];
        let mut all = SmallVec::<[f64; 8]>::from_slice(&numbers.map(double));
        all.push(most);
        Some(self.told(b'l', &all))
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
        let wait = self.wait(check, limit);
        let ([t_us, t_part], [idle_us, idle_part]) = (time, idle);
        let ([warm_us, warm_part], [cold_us, cold_part]) = (warm, cold);
        let (per_micro, coldest) = (clamped(per_micro), clamped(coldest));
        let times = [t_us, t_part, idle_us, idle_part].map(double);
        let bounds = [warm_us, warm_part, cold_us, cold_part].map(double);
        let mut numbers = SmallVec::<[f64; 13]>::from_slice(&[double(per_micro), double(scale)]);
        numbers.extend(times);
        numbers.push(double(whole_warm_up));
        numbers.extend(bounds);
        numbers.extend([coldest, wait].map(double));
        Some(self.told(b'u', &numbers))
    }

    fn concurrency(&mut self, places: &Concurrency, check: &Check<'_>, cost: u64) -> Option<Told> {
        let (limit, lease) = (places.capacity(), whole(places.lease().as_nanos())?);
        if self.is_take() && check.cost > limit {
            return Some(self.kind(b'x'));
        }
        if limit > MAX || lease > MAX / 4 {
            return Some(Told::TooLarge);
        }
        // Giving up a place gives up all of it.
        let cost = if self.is_take() { cost } else { 0 };
        let most = limit - check.reserve.amount(limit).min(limit - cost);
        let told = self.told(b'p', &[most, lease, cost].map(double));
        self.words.extend(format!("{:020}", check.lease).as_bytes());
        Some(told)
    }
}

/// As Lua has it: exact, since none is larger than that allows.
fn double(number: u64) -> f64 {
    number as f64
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
