//! The warm-up: a rate that is slow after idle time and speeds up under use.
//!
//! This is Guava's `SmoothWarmingUp` in integers. A cold cache or connection pool cannot take
//! the full rate at once, so permits saved while idle are *more expensive* than fresh ones: in a fully
//! cold limiter the first of them takes `cold_factor` times the usual interval, and the time comes
//! down to the usual interval along a straight line. A request of any cost passes at once while there
//! is no debt; the next one waits.
//!
//! Two changes of unit make it exact. Saved permits are kept as the *idle time* that saved them,
//! `0..=warm_up`, so that saving is an addition and a change of rate leaves them unchanged. And
//! Guava's area under the line is split: every permit costs the stable interval, and on top of that
//! the cold costs `warm_up * (f - 1) / (f + 1) * (u0² - u1²)`, where `u` is the remaining share of the
//! cold. That is a function of the state alone, so three permits cost the same at once or one by one,
//! and a refund returns exactly what was paid.
//!
//! Rejected: doubles, as in Guava. There a warm-up of zero becomes NaN, and above a million permits a
//! second every wait truncates to zero.

mod parts;

pub use parts::WarmUpParts;

use crate::exact_nanos::ExactNanos;
use crate::{Algorithm, InvalidLimit, Judgement, MAX_AMOUNT, MAX_FILL, Span, Time};

/// A limit of `rate` permits each `period`, reached `warm_up` after a cold start.
///
/// The [capacity](Algorithm::capacity) is `rate`, the permits that a warm limiter allows in a
/// `period`; debt counts as used. A request of any cost passes while there is no debt.
///
/// ```
/// use tollgate_core::{Algorithm, Span, Time, WarmUp};
///
/// let limit = WarmUp::new(2, Span::from_secs(1), Span::from_secs(4))?;
/// let now = Time::EPOCH;
/// let mut state = limit.fresh(now);
/// assert!(limit.decide(&mut state, now, 1).allowed);
/// // Cold: the next one waits almost three times the half second that it would wait when warm.
/// assert_eq!(limit.peek(&state, now).overdrawn, Span::from_millis(1375));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WarmUp {
    /// Permits per `period`.
    rate: u64,
    /// The period in nanoseconds.
    period: u64,
    /// Idle nanoseconds from warm to cold, which is also the time from cold to warm under load.
    warm_up: u64,
    cold_factor: u32,
    /// Parts of a nanosecond in the states: `rate * (cold_factor + 5)`.
    scale: u64,
}

/// The idle time saved, and the time of the next permit.
///
/// ```
/// use tollgate_core::{Algorithm, Span, Time, WarmUp};
/// let limit = WarmUp::new(2, Span::from_secs(1), Span::from_secs(4))?;
/// let (idle, next_free) = limit.fresh(Time::from_nanos(7)).parts();
/// assert_eq!((idle, next_free), ((4_000_000_000, 0), (7, 0)));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WarmUpState {
    /// The idle time saved: zero is warm, the whole warm-up is cold.
    stored: ExactNanos,
    next_free: ExactNanos,
}

impl WarmUpState {
    /// Creates the state of a saved idle time and a next free moment.
    ///
    /// Each is in nanoseconds and parts (`1 / scale`) of the next one.
    pub const fn from_parts(stored: (u64, u64), next_free: (u64, u64)) -> WarmUpState {
        let stored = ExactNanos { ns: stored.0, frac: stored.1 };
        WarmUpState { stored, next_free: ExactNanos { ns: next_free.0, frac: next_free.1 } }
    }

    /// Returns the saved idle time and the next free moment, as [`from_parts`](Self::from_parts) takes them.
    pub const fn parts(self) -> ((u64, u64), (u64, u64)) {
        ((self.stored.ns, self.stored.frac), (self.next_free.ns, self.next_free.frac))
    }
}

impl WarmUp {
    /// Creates a limit of `rate` permits each `period` that takes `warm_up` to get warm.
    ///
    /// The cold factor is three.
    pub fn new(rate: u64, period: Span, warm_up: Span) -> Result<WarmUp, InvalidLimit> {
        match rate {
            0 => return Err(InvalidLimit::ZeroAmount),
            _ if period.is_zero() => return Err(InvalidLimit::ZeroPeriod),
            _ if warm_up.is_zero() => return Err(InvalidLimit::NoWarmUp),
            _ if period > MAX_FILL || warm_up > MAX_FILL => {
                return Err(InvalidLimit::PeriodTooLong);
            }
            _ => {}
        }
        let (period, warm_up) = (period.as_nanos(), warm_up.as_nanos());
        WarmUp { rate, period, warm_up, cold_factor: 3, scale: rate }.cold_factor(3)
    }

    /// Sets how many times slower the first permit is when cold; at least two.
    ///
    /// The rate times `factor + 5` must not exceed [`MAX_AMOUNT`].
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Span, Time, WarmUp};
    /// let limit = WarmUp::new(1, Span::from_secs(1), Span::from_secs(60))?;
    /// let wait = |limit: WarmUp| {
    ///     let mut state = limit.fresh(Time::EPOCH);
    ///     limit.charge(&mut state, Time::EPOCH, 1);
    ///     limit.judge(&state, Time::EPOCH).overdrawn
    /// };
    /// assert!(wait(limit.cold_factor(10)?) > wait(limit));
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn cold_factor(self, factor: u32) -> Result<WarmUp, InvalidLimit> {
        if factor < 2 {
            return Err(InvalidLimit::NoWarmUp);
        }
        match self.rate.saturating_mul(u64::from(factor) + 5) {
            scale @ ..=MAX_AMOUNT => Ok(WarmUp { cold_factor: factor, scale, ..self }),
            scale => Err(InvalidLimit::AmountTooLarge(scale)),
        }
    }

    /// Returns the number of parts of a nanosecond in the states of this limit.
    pub fn scale(&self) -> u64 {
        self.scale
    }

    /// Converts a state of the limit `old` to one of this limit.
    ///
    /// The share of cold and the time of the debt stay the same.
    pub fn carry(&self, old: &WarmUp, state: &WarmUpState, now: Time) -> WarmUpState {
        let mut state = *state;
        old.resync(&mut state, now);
        let share =
            |part: u64, of: u64, whole: u64| u128::from(part) * u128::from(whole) / u128::from(of);
        let rescaled =
            |e: ExactNanos| ExactNanos { frac: share(e.frac, old.scale, self.scale) as u64, ..e };
        state.next_free = rescaled(state.next_free);
        state.stored = match old.warm_up == self.warm_up {
            true => rescaled(state.stored),
            false => ExactNanos::whole(share(state.stored.ns, old.warm_up, self.warm_up) as u64),
        };
        state
    }

    /// Returns the time that `n` permits take when warm.
    fn warm_time_of(&self, n: u64) -> ExactNanos {
        let ExactNanos { ns, frac } = ExactNanos::from_amount(n, self.period, self.rate);
        ExactNanos { ns, frac: frac * (self.scale / self.rate) }
    }

    /// Returns the idle time that saves `n` permits, or any time beyond the whole warm-up.
    fn idle_time_of(&self, n: u64) -> ExactNanos {
        let one = u128::from(self.period) * (2 * (u128::from(self.cold_factor) + 1));
        let all = ExactNanos::whole(self.warm_up).units(self.scale);
        ExactNanos::from_units(u128::from(n).min(all / one + 1) * one, self.scale)
    }

    /// Returns the nanoseconds that warming up from `stored` costs on top of the stable intervals.
    fn chill(&self, stored: ExactNanos) -> u64 {
        let factor = u128::from(self.cold_factor);
        let quarter = u128::from(self.warm_up) * u128::from(self.rate);
        let whole = 4 * quarter;
        // Permits below the threshold cost no more than fresh ones.
        let above = stored.units(self.scale).saturating_sub((factor + 1) * quarter).min(whole);
        // The share above the threshold, in 2^-62. Of a larger number 65 bits are enough.
        let excess_bits = (128 - whole.leading_zeros()).saturating_sub(65);
        let share = ((above >> excess_bits) << 62) / (whole >> excess_bits);
        let coldest = u128::from(self.warm_up) * (factor - 1) / (factor + 1);
        ((((share * share) >> 62) * coldest) >> 62) as u64
    }

    /// Saves the unused time up to `now`.
    fn resync(&self, state: &mut WarmUpState, now: Time) {
        let now = ExactNanos::whole(now.as_nanos());
        let idle = now.minus(state.next_free, self.scale);
        state.stored = state.stored.plus(idle, self.scale).min(ExactNanos::whole(self.warm_up));
        state.next_free = state.next_free.max(now);
    }

    /// Returns when the state is cold again.
    fn cold_at(&self, state: &WarmUpState) -> ExactNanos {
        let missing = ExactNanos::whole(self.warm_up).minus(state.stored, self.scale);
        state.next_free.plus(missing, self.scale)
    }
}

impl Algorithm for WarmUp {
    type State = WarmUpState;

    /// Returns a cold state.
    fn fresh(&self, now: Time) -> WarmUpState {
        WarmUpState {
            stored: ExactNanos::whole(self.warm_up),
            next_free: ExactNanos::whole(now.as_nanos()),
        }
    }

    fn charge(&self, state: &mut WarmUpState, now: Time, cost: i64) {
        self.resync(state, now);
        let (permits, before) = (cost.unsigned_abs(), self.chill(state.stored));
        let (time, idle) = (self.warm_time_of(permits), self.idle_time_of(permits));
        if cost >= 0 {
            state.stored = state.stored.minus(idle, self.scale);
            let chill = ExactNanos::whole(before - self.chill(state.stored));
            state.next_free = state.next_free.plus(time, self.scale).plus(chill, self.scale);
        } else {
            state.stored = state.stored.plus(idle, self.scale).min(ExactNanos::whole(self.warm_up));
            let back = time.plus(ExactNanos::whole(self.chill(state.stored) - before), self.scale);
            state.next_free =
                state.next_free.minus(back, self.scale).max(ExactNanos::whole(now.as_nanos()));
        }
    }

    fn judge(&self, state: &WarmUpState, now: Time) -> Judgement {
        let until = |moment: ExactNanos| Time::from_nanos(moment.ceil()).since(now);
        Judgement {
            overdrawn: until(state.next_free),
            delay: Span::ZERO,
            remaining: self.rate.saturating_sub(self.used(state, now)),
            reset_after: until(self.cold_at(state)),
        }
    }

    fn capacity(&self) -> u64 {
        self.rate
    }

    /// Returns the permits of the debt.
    fn used(&self, state: &WarmUpState, now: Time) -> u64 {
        let owed =
            state.next_free.minus(ExactNanos::whole(now.as_nanos()), self.scale).units(self.scale);
        let permit = u128::from(self.period) * u128::from(self.scale / self.rate);
        u64::try_from(owed.div_ceil(permit)).unwrap_or(u64::MAX)
    }

    fn full_at(&self, state: &WarmUpState) -> Time {
        Time::from_nanos(self.cold_at(state).ceil())
    }

    fn pays_later(&self) -> bool {
        true
    }

    /// Returns 0: a warm-up limits the pace and has no amount to reserve.
    fn max_reserve(&self, _cost: u64) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
