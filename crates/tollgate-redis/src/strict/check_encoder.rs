//! Encodes a check for the Lua: its kind and numbers, in the order in which `lua/*.lua` reads them.

use smallvec::SmallVec;
use tollgate::{Action, Check, LimitAlgorithm, Span, StoreError, Time};
use tollgate_core::{
    Algorithm, Calendar, Concurrency, FixedWindow, Meter, SlidingLog, SlidingWindow, WarmUp,
    WarmUpParts, Window,
};

use super::meter_units::{MAX, MeterUnits};
use super::state_text::micros;
use crate::arguments::Arguments;
use crate::function::{Families, families_of};

/// The maximum of numbers that the Lua multiplies with one another.
const MAX_FACTOR: u64 = (1 << 51) - 1;

/// The error that an estimate of the server's time may have before a calendar's period is looked up
/// again.
const CLOCK_TOLERANCE: Span = Span::from_secs(3_600);

/// The result of encoding a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckEncoding {
    /// The check is encoded, and needs the algorithms of these families.
    Encoded(Families),
    /// The numbers of the check are too large for Lua.
    TooLarge,
}

/// Appends checks to the arguments of a call.
pub(super) struct CheckEncoder<'w> {
    args: &'w mut Arguments,
    action: Action,
    /// The approximate time at the server.
    server_time: Time,
    /// Whether the current check may have its state in the counter of a previous limit.
    has_previous: bool,
}

/// Returns the letter of an action that changes counters.
pub(super) fn action_letter(action: Action) -> &'static str {
    match action {
        Action::Take { .. } => "T",
        Action::Refund => "R",
        Action::Release { .. } => "X",
        Action::Renew => "K",
        _ => "S",
    }
}

impl<'w> CheckEncoder<'w> {
    pub(super) fn new(
        args: &'w mut Arguments,
        action: Action,
        server_time: Time,
    ) -> CheckEncoder<'w> {
        CheckEncoder { args, action, server_time, has_previous: false }
    }

    pub(super) fn encode(&mut self, check: &Check<'_>) -> Result<CheckEncoding, StoreError> {
        self.has_previous = check.previous.is_some();
        let limit = check.limit.algorithm();
        match (self.action, limit) {
            (Action::Reset, _) => return Ok(self.push_kind(b'd')),
            (Action::Release { .. } | Action::Renew, LimitAlgorithm::Concurrent(_)) => {}
            (Action::Refund, LimitAlgorithm::Concurrent(_)) if check.cost == 0 => {
                return Ok(self.push_kind(b'n'));
            }
            // A rate keeps what was spent. But a key that does not start full begins when it is
            // first named.
            (Action::Release { .. } | Action::Renew, LimitAlgorithm::Meter(meter))
                if !meter.is_full_on_arrival() => {}
            (Action::Release { .. } | Action::Renew, _) => return Ok(self.push_kind(b'n')),
            _ => {}
        }
        let cost = match self.action {
            Action::Release { .. } | Action::Renew => 0,
            _ => check.cost.min(i64::MAX as u64),
        };
        let encoding = match limit {
            LimitAlgorithm::Meter(meter) => self.meter(meter, check, cost),
            LimitAlgorithm::FixedWindow(window) => self.fixed_window(window, check, cost),
            LimitAlgorithm::SlidingWindow(window) => self.sliding_window(window, check, cost),
            LimitAlgorithm::SlidingSlots(slots) => self.sliding_log(slots.log(), check, cost),
            LimitAlgorithm::SlidingLog(log) => self.sliding_log(log, check, cost),
            LimitAlgorithm::Concurrent(permits) => self.concurrency(permits, check, cost),
            LimitAlgorithm::WarmUp(warm_up) => self.warm_up(warm_up, check, cost),
            LimitAlgorithm::Adaptive(_) | LimitAlgorithm::Unlimited => {
                Some(CheckEncoding::TooLarge)
            }
        };
        encoding.ok_or_else(|| {
            StoreError::new(format!(
                "Redis counts whole microseconds, and the limit {} needs fractions: change its period",
                check.limit
            ))
        })
    }

    /// Appends a kind without numbers.
    fn push_kind(&mut self, kind: u8) -> CheckEncoding {
        self.push(kind, &[])
    }

    fn push(&mut self, kind: u8, numbers: &[f64]) -> CheckEncoding {
        let kind_and_previous = [kind, b'F'];
        self.args.push(&kind_and_previous[..1 + usize::from(self.has_previous)]);
        self.args.doubles(numbers);
        CheckEncoding::Encoded(families_of(kind))
    }

    /// Returns the amount that the check must leave of its limit.
    fn reserve(&self, check: &Check<'_>, limit: &impl Algorithm) -> u64 {
        match check.reserve.is_none() || !self.is_take() {
            true => 0,
            false => check.reserve.amount(limit.capacity()).min(limit.max_reserve(check.cost)),
        }
    }

    /// Returns the most that may be spent of a limit for the check to pass; negative if it never
    /// can.
    fn bound(&self, check: &Check<'_>, limit: &impl Algorithm) -> f64 {
        match limit.can_hold(check.cost) {
            true => double(limit.capacity() - self.reserve(check, limit)),
            false => -1.0,
        }
    }

    /// Returns how long the check may wait, in whole microseconds; 0 if it may not be queued.
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

    fn meter(&mut self, meter: &Meter, check: &Check<'_>, cost: u64) -> Option<CheckEncoding> {
        if self.is_take() && !meter.can_hold(check.cost) {
            return Some(match meter.is_full_on_arrival() {
                true => self.push_kind(b'x'),
                false => CheckEncoding::TooLarge,
            });
        }
        let Some(units) = MeterUnits::new(meter, check.limit_varies) else {
            return Some(CheckEncoding::TooLarge);
        };
        let parts = meter.parts();
        let time = units.in_parts(meter.time_of(cost));
        let reserved = meter.time_of(self.reserve(check, meter));
        let full_depth = units.in_parts(parts.depth);
        let depth = units.difference_in_parts(parts.depth, reserved);
        if time.0 > MAX / 2 || full_depth.0 > MAX / 2 {
            return Some(CheckEncoding::TooLarge);
        }
        let wait = self.wait(check, meter);
        if meter.as_plain().is_some() {
            let bound = (depth.0 + wait).min(MAX);
            let numbers = [units.scale, time.0, time.1, bound, depth.1, full_depth.0, full_depth.1];
            let kind = if check.limit_varies { b'v' } else { b'm' };
            return Some(self.push(kind, &numbers.map(double)));
        }
        let (interval, offset) = match parts.interval {
            None => (0, 0),
            Some((interval, offset)) => (whole(interval)?, whole(offset)?),
        };
        let owed = units.in_parts(parts.owed_at_start);
        let smooth = parts.smooth.map(|smooth| units.in_parts(smooth));
        let smooth = smooth.map_or([-1.0, 0.0], |(us, part)| [us.min(MAX), part].map(double));
        let numbers = [units.scale, time.0, time.1, depth.0, depth.1, wait, interval, offset];
        let mut all = SmallVec::<[f64; 15]>::from_slice(&numbers.map(double));
        all.extend([owed.0, owed.1].map(double));
        all.extend(smooth);
        all.extend([parts.pays_later.into(), full_depth.0, full_depth.1].map(double));
        Some(self.push(b'M', &all))
    }

    fn fixed_window(
        &mut self,
        window: &FixedWindow,
        check: &Check<'_>,
        cost: u64,
    ) -> Option<CheckEncoding> {
        let (limit, counts) = (window.capacity(), window.counts_denied());
        if limit > MAX || cost > MAX {
            return Some(CheckEncoding::TooLarge);
        }
        let (kind, [first, second]) = match window.window() {
            Window::Aligned { length, phase } => {
                (b'f', [whole(length.as_nanos())?, whole(phase.as_nanos())?].map(double))
            }
            Window::FirstHit { length } => (b'f', [double(whole(length.as_nanos())?), -1.0]),
            Window::Calendar(calendar) => {
                let (from, to) = period(&**calendar, self.server_time);
                (b'c', [micros(from), micros(to).min(MAX)].map(double))
            }
        };
        let (bound, wait) = (self.bound(check, window), self.wait(check, window));
        let [counts, cost, wait] = [counts.into(), cost, wait].map(double);
        Some(self.push(kind, &[double(limit), first, second, counts, cost, wait, bound]))
    }

    fn sliding_window(
        &mut self,
        window: &SlidingWindow,
        check: &Check<'_>,
        cost: u64,
    ) -> Option<CheckEncoding> {
        let (limit, counts) = (window.capacity(), window.counts_denied());
        let length = whole(window.length().as_nanos())?;
        if limit > MAX_FACTOR || cost > MAX_FACTOR || length > MAX_FACTOR {
            return Some(CheckEncoding::TooLarge);
        }
        let (bound, wait) = (self.bound(check, window), self.wait(check, window));
        let [length, counts, cost, wait] = [length, counts.into(), cost, wait].map(double);
        Some(self.push(b'w', &[length, counts, cost, wait, bound]))
    }

    fn sliding_log(
        &mut self,
        log: &SlidingLog,
        check: &Check<'_>,
        cost: u64,
    ) -> Option<CheckEncoding> {
        let (limit, counts) = (log.capacity(), log.counts_denied());
        let (window, gap) = (whole(log.window().as_nanos())?, whole(log.gap().as_nanos())?);
        let slot = if log.slot() == 1 { 1 } else { whole(log.slot())? };
        if limit > MAX || cost > MAX || window > MAX / 4 {
            return Some(CheckEncoding::TooLarge);
        }
        let (bound, wait) = (self.bound(check, log), self.wait(check, log));
        let numbers = [limit, window, gap, slot, counts.into(), cost, wait];
        let mut all = SmallVec::<[f64; 8]>::from_slice(&numbers.map(double));
        all.push(bound);
        Some(self.push(b'l', &all))
    }

    fn warm_up(&mut self, limit: &WarmUp, check: &Check<'_>, cost: u64) -> Option<CheckEncoding> {
        if self.is_take() && !limit.can_hold(check.cost) {
            return Some(self.push_kind(b'x'));
        }
        let WarmUpParts { rate, warm_up, cold_factor, scale, .. } = limit.parts();
        let factor = u128::from(cold_factor);
        let whole_warm_up = whole(warm_up)?;
        // The warm-up time multiplied by the rate. The Rust algorithm shifts larger products.
        let quarter = u128::from(warm_up) * u128::from(rate);
        let per_micro = u128::from(scale) * 1_000;
        if quarter >= 1 << 63 || per_micro > u128::from(MAX / 2) || warm_up > MAX {
            return Some(CheckEncoding::TooLarge);
        }
        let in_micros = |units: u128| [units / per_micro, units % per_micro].map(clamped);
        let written = |(ns, frac): (u64, u64)| {
            in_micros(u128::from(ns) * u128::from(scale) + u128::from(frac))
        };
        let (time, idle) = (written(limit.time_of(cost)), written(limit.idle_for(cost)));
        if time[0] > MAX / 2 {
            return Some(CheckEncoding::TooLarge);
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
        Some(self.push(b'u', &numbers))
    }

    fn concurrency(
        &mut self,
        permits: &Concurrency,
        check: &Check<'_>,
        cost: u64,
    ) -> Option<CheckEncoding> {
        let (limit, lease) = (permits.capacity(), whole(permits.lease().as_nanos())?);
        if self.is_take() && check.cost > limit {
            return Some(self.push_kind(b'x'));
        }
        if limit > MAX || lease > MAX / 4 {
            return Some(CheckEncoding::TooLarge);
        }
        // A release frees the whole permit.
        let cost = if self.is_take() { cost } else { 0 };
        let bound = limit - check.reserve.amount(limit).min(limit - cost);
        let encoding = self.push(b'p', &[bound, lease, cost].map(double));
        self.args.extend_last(format!("{:020}", check.lease).as_bytes());
        Some(encoding)
    }
}

/// Converts a number to a Lua number, exactly: no larger number than `MAX` gets here.
fn double(number: u64) -> f64 {
    number as f64
}

/// Returns the number, or the largest `u64`.
fn clamped(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Returns whole microseconds; `None` if there is a remainder.
fn whole(nanos: u64) -> Option<u64> {
    nanos.is_multiple_of(1_000).then_some(nanos / 1_000)
}

/// Returns the start and end of the calendar's period at `server_time`.
fn period(calendar: &dyn Calendar, server_time: Time) -> (Time, Time) {
    let (to, earlier) = (calendar.period_end(server_time), server_time - CLOCK_TOLERANCE);
    match calendar.period_end(earlier) {
        end if end == to => (earlier, to),
        begin => (begin, to),
    }
}
