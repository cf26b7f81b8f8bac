//! The meter without options, as a fast path.
//!
//! This is the arithmetic of every [`Meter`](crate::Meter), without interval refill, initial fill,
//! shaping and paying later. A store that has a plain limit decides with [`PlainMeter::take`], some
//! twenty instructions.

use crate::exact_nanos::ExactNanos;
use crate::{MeterState, Retry, Span, Time};

/// A meter that refills continuously, starts full, and allows or refuses.
///
/// ```
/// use tollgate_core::{Meter, MeterState, Retry, Span, Time};
///
/// let meter = Meter::new(10, Span::from_secs(1), 2)?;
/// let plain = meter.as_plain().expect("neither shaping nor borrowing");
/// let now = Time::from_nanos(0);
/// let state = plain.take(MeterState::default(), now, 2).unwrap();
/// assert_eq!(plain.take(state, now, 1), Err(Retry::After(Span::from_millis(100))));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlainMeter {
    /// Tokens per `period`, reduced by their common divisor.
    pub(super) rate: u64,
    /// Nanoseconds in which `rate` tokens are refilled.
    pub(super) period: u64,
    pub(super) burst: u64,
    /// The time one token takes to refill.
    pub(super) token: ExactNanos,
    /// How far the arrival time may run ahead of now: the time `burst` tokens take.
    pub(super) depth: ExactNanos,
}

impl PlainMeter {
    /// Spends `cost` if that is allowed, and returns the new state, or when to retry.
    #[inline(always)]
    pub fn take(&self, state: MeterState, now: Time, cost: u64) -> Result<MeterState, Retry> {
        let now = now.as_nanos();
        let arrival = self.spent(state.0, now, cost);
        if cost > self.burst {
            return Err(Retry::Never);
        }
        match self.conforms(arrival, now) {
            true => Ok(MeterState(arrival)),
            false => Err(Retry::After(self.conforms_after(arrival, now))),
        }
    }

    /// Returns the number of parts of a nanosecond in the states of this meter.
    #[inline]
    pub fn scale(&self) -> u64 {
        self.rate
    }

    #[inline(always)]
    pub(super) fn time_of(&self, tokens: u64) -> ExactNanos {
        if tokens == 1 {
            self.token
        } else {
            ExactNanos::from_amount(tokens, self.period, self.rate)
        }
    }

    /// Returns the arrival time after spending `tokens`, refilled up to `since`.
    #[inline(always)]
    pub(super) fn spent(&self, arrival: ExactNanos, since: u64, tokens: u64) -> ExactNanos {
        arrival.max(ExactNanos::whole(since)).plus(self.time_of(tokens), self.rate)
    }

    /// Returns the arrival time after refunding `tokens`, refilled up to `since`.
    pub(super) fn refunded(&self, arrival: ExactNanos, since: u64, tokens: u64) -> ExactNanos {
        arrival.max(ExactNanos::whole(since)).minus(self.time_of(tokens), self.rate)
    }

    /// Returns whether the arrival time is ahead of `since` by at most the depth of the bucket.
    #[inline(always)]
    pub(super) fn conforms(&self, arrival: ExactNanos, since: u64) -> bool {
        arrival <= ExactNanos { ns: since.saturating_add(self.depth.ns), frac: self.depth.frac }
    }

    /// Returns how long after `now` the arrival time conforms.
    #[inline]
    fn conforms_after(&self, arrival: ExactNanos, now: u64) -> Span {
        Span::from_nanos(arrival.minus(self.depth, self.rate).ceil().saturating_sub(now))
    }
}
