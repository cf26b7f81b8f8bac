//! The everyday meter, with nothing to slow it down.
//!
//! This is the arithmetic of every [`Meter`](crate::Meter), without refill in intervals, initial
//! fill, shaping and borrowing. A store that has found a limit to be this plain decides with
//! [`PlainMeter::take`], some twenty instructions.

use crate::exact::Exact;
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
    /// Nanoseconds in which `rate` tokens come back.
    pub(super) period: u64,
    pub(super) burst: u64,
    /// How long one token takes.
    pub(super) token: Exact,
    /// How far the arrival time may run ahead of now: the time `burst` tokens take.
    pub(super) depth: Exact,
}

impl PlainMeter {
    /// Takes `cost` out of `state` if that is allowed: the state after it, or when to come back.
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

    /// Into how many parts a nanosecond is divided in the states of this meter.
    #[inline]
    pub fn scale(&self) -> u64 {
        self.rate
    }

    #[inline(always)]
    pub(super) fn time_of(&self, tokens: u64) -> Exact {
        if tokens == 1 { self.token } else { Exact::of(tokens, self.period, self.rate) }
    }

    /// The arrival time after spending `tokens`, everything due by `since` having come back.
    #[inline(always)]
    pub(super) fn spent(&self, arrival: Exact, since: u64, tokens: u64) -> Exact {
        arrival.max(Exact::whole(since)).plus(self.time_of(tokens), self.rate)
    }

    pub(super) fn given_back(&self, arrival: Exact, since: u64, tokens: u64) -> Exact {
        arrival.max(Exact::whole(since)).minus(self.time_of(tokens), self.rate)
    }

    /// Whether the arrival time is no further ahead of `since` than the bucket is deep.
    #[inline(always)]
    pub(super) fn conforms(&self, arrival: Exact, since: u64) -> bool {
        arrival <= Exact { ns: since.saturating_add(self.depth.ns), frac: self.depth.frac }
    }

    /// How long after `now` that will be so.
    #[inline]
    fn conforms_after(&self, arrival: Exact, now: u64) -> Span {
        Span::from_nanos(arrival.minus(self.depth, self.rate).ceil().saturating_sub(now))
    }
}
