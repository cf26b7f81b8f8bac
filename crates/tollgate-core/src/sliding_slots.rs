//! The sliding window cut into slots: 500 an hour as the sum of sixty one-minute counters.
//!
//! The window is the current slot and the `N - 1` before it, so it advances by one slot at a time.
//! The [sliding log](crate::SlidingLog) is exact and has one entry for each spend; two weighted
//! counters are tiny and an estimate. Slots lie between them, with a known error: no interval as long
//! as `N - 1` slots ever admits more than the limit. There is one counter per slot, and every decision
//! is a sum of integers.
//!
//! Slots are aligned to the Unix epoch, so that every host divides time equally.
//!
//! The implementation is the log, with each time rounded down to the start of its slot: a spend at
//! that start expires one window later, exactly when its slot does. So one implementation serves both.
//!
//! Rejected: a ring of `N` counters, the first implementation. A reservation is spent in a future
//! slot, so the ring had to advance and drop slots that still count, and could not restore them when
//! the reservation was cancelled.

use crate::{
    Algorithm, InvalidLimit, Judgement, MAX_SLOTS, SlidingLog, SlidingLogState, Span, Time, Verdict,
};

/// A limit of `limit` in the current slot and the `slots - 1` before it.
///
/// ```
/// use tollgate_core::{Algorithm, Retry, SlidingSlots, Span, Time};
///
/// let hourly = SlidingSlots::new(500, Span::from_secs(3600), 60)?;
/// let at = |minutes: u64, seconds: u64| Time::EPOCH + Span::from_secs(minutes * 60 + seconds);
/// let mut state = hourly.fresh(at(0, 0));
/// assert!(hourly.decide(&mut state, at(0, 30), 400).allowed);
/// assert!(hourly.decide(&mut state, at(20, 0), 100).allowed);
/// // The first 400 expire when their minute is an hour old.
/// let denied = hourly.decide(&mut state, at(59, 50), 1);
/// assert_eq!(denied.retry, Retry::After(Span::from_secs(10)));
/// assert_eq!(hourly.decide(&mut state, at(60, 0), 1).remaining, 399);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingSlots(SlidingLog);

/// The counters of one key: a log with one entry per slot.
///
/// ```
/// use tollgate_core::{Algorithm, SlidingSlots, Span, Time};
/// let slots = SlidingSlots::new(9, Span::from_nanos(40), 4)?;
/// let mut state = slots.fresh(Time::EPOCH);
/// slots.charge(&mut state, Time::from_nanos(12), 1);
/// slots.charge(&mut state, Time::from_nanos(19), 1);
/// assert_eq!(state.entries().collect::<Vec<_>>(), [(Time::from_nanos(10), 2)]);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
pub type SlidingSlotsState = SlidingLogState;

impl SlidingSlots {
    /// Returns the log that implements the slots.
    pub fn log(&self) -> &SlidingLog {
        &self.0
    }

    /// Creates a limit of `limit` in `window`, which is divided into at least two equal `slots`.
    pub fn new(limit: u64, window: Span, slots: u32) -> Result<SlidingSlots, InvalidLimit> {
        let log = SlidingLog::new(limit, window)?;
        let nanos = window.as_nanos();
        match slots {
            0 | 1 => Err(InvalidLimit::TooFewSlots(slots)),
            _ if slots > MAX_SLOTS => Err(InvalidLimit::TooManySlots(slots)),
            _ if !nanos.is_multiple_of(slots.into()) => Err(InvalidLimit::UnevenSlots(slots)),
            _ => Ok(SlidingSlots(log.in_slots(nanos / u64::from(slots)))),
        }
    }
}

impl Algorithm for SlidingSlots {
    type State = SlidingSlotsState;

    fn fresh(&self, now: Time) -> SlidingSlotsState {
        self.0.fresh(now)
    }

    fn charge(&self, state: &mut SlidingSlotsState, now: Time, cost: i64) {
        self.0.charge(state, now, cost);
    }

    fn judge(&self, state: &SlidingSlotsState, now: Time) -> Judgement {
        self.0.judge(state, now)
    }

    fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    fn used(&self, state: &SlidingSlotsState, now: Time) -> u64 {
        self.0.used(state, now)
    }

    fn full_at(&self, state: &SlidingSlotsState) -> Time {
        self.0.full_at(state)
    }

    fn retry_after(&self, before: &SlidingSlotsState, now: Time, cost: i64) -> Span {
        self.0.retry_after(before, now, cost)
    }

    fn retry_after_leaving(
        &self,
        before: &SlidingSlotsState,
        now: Time,
        cost: u64,
        reserve: u64,
    ) -> Span {
        self.0.retry_after_leaving(before, now, cost, reserve)
    }

    fn reserve(
        &self,
        state: &mut SlidingSlotsState,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        self.0.reserve(state, now, cost, max_wait)
    }

    fn attempt(
        &self,
        state: &mut SlidingSlotsState,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        self.0.attempt(state, now, cost, max_wait)
    }

    fn peek(&self, state: &SlidingSlotsState, now: Time) -> Judgement {
        self.0.peek(state, now)
    }
}

#[cfg(test)]
mod tests;
