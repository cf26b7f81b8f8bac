//! States of a clock that steps back: how far ahead a state may lie, and how to move it back.
//!
//! A state holds points in time. If the clock that wrote them steps back by an hour, they lie an hour
//! too far ahead, and a spent key would be refused for that hour. Without debt, a state reaches at
//! most one [fill time](crate::Meter::fill_time) or window ahead of the clock. So a state that reaches
//! further was either written before a step, or it owes a debt: an overrun, a reservation with a wait,
//! a ban. A store tells the two apart by the time at which it wrote a state with a debt.
//!
//! This matters only to stores whose clock can step, such as Redis, and to states that outlive a
//! process. A monotonic clock never needs it.

use alloc::vec::Vec;

use crate::exact_nanos::ExactNanos;
use crate::{
    Concurrency, ConcurrencyState, FixedWindow, FixedWindowState, Lease, Meter, MeterState,
    SlidingLog, SlidingLogState, SlidingSlots, SlidingWindow, SlidingWindowState, Span, Time,
    WarmUp, WarmUpState, Window,
};

/// Moves states back that were written before the clock stepped back.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Rewind, Span, Time};
/// let meter = Meter::new(10, Span::from_secs(1), 10)?;
/// let (hour, now) = (Span::from_secs(3_600), Time::EPOCH + Span::from_secs(90_000));
/// let mut spent = meter.fresh(now);
/// meter.charge(&mut spent, now, 10);
/// // The clock steps back by an hour: the key is empty, as it was, and full after a second.
/// assert!(meter.rewind(&mut spent, None, now - hour));
/// assert_eq!(meter.full_at(&spent), now - hour + Span::from_secs(1));
/// // A debt of a minute stays one.
/// let mut debt = meter.fresh(now);
/// meter.charge(&mut debt, now, 600);
/// assert!(meter.rewind(&mut debt, Some(now), now - hour));
/// assert_eq!(meter.full_at(&debt), now - hour + Span::from_secs(60));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
pub trait Rewind {
    /// The state of one key.
    type State;

    /// Returns whether `state` reaches further ahead of `now` than the limit takes a key without debt.
    ///
    /// A store that writes such a state writes the time as well, for [`rewind`](Rewind::rewind).
    fn is_ahead(&self, state: &Self::State, now: Time) -> bool;

    /// Moves a state without debt back to the furthest point that the limit allows at `now`.
    fn clamp(&self, state: &mut Self::State, now: Time);

    /// Moves all times of a state back.
    fn shift_back(&self, state: &mut Self::State, by: Span);

    /// Moves a state back if the clock has stepped back since it was written; returns whether it has.
    ///
    /// `written` is the time of writing of a state that was [ahead](Rewind::is_ahead) then. Afterwards
    /// a key waits no longer than it had to when the state was written, and owes no less.
    fn rewind(&self, state: &mut Self::State, written: Option<Time>, now: Time) -> bool {
        if !self.is_ahead(state, now) {
            return false;
        }
        match written {
            None => self.clamp(state, now),
            Some(written) if written > now => self.shift_back(state, written.since(now)),
            Some(_) => return false,
        }
        true
    }
}

impl Meter {
    /// Returns the arrival time of an empty bucket without debt.
    fn empty_at(&self, now: Time) -> ExactNanos {
        let (ns, frac) = self.parts().depth;
        ExactNanos::whole(self.refilled_at(now)).plus(ExactNanos { ns, frac }, self.scale())
    }
}

impl Rewind for Meter {
    type State = MeterState;

    fn is_ahead(&self, state: &MeterState, now: Time) -> bool {
        state.0 > self.empty_at(now)
    }

    fn clamp(&self, state: &mut MeterState, now: Time) {
        state.0 = state.0.min(self.empty_at(now));
    }

    fn shift_back(&self, state: &mut MeterState, by: Span) {
        state.0 = state.0.minus(ExactNanos::whole(by.as_nanos()), self.scale());
    }
}

/// A window that ends after the current one, which only a step of the clock explains, becomes the
/// current one.
impl Rewind for FixedWindow {
    type State = FixedWindowState;

    fn is_ahead(&self, state: &FixedWindowState, now: Time) -> bool {
        let (end, used) = state.parts();
        let is_late = match self.window() {
            // Looking up a date is slow. A later period ends no sooner than after this: none is shorter
            // than three quarters of the longest.
            Window::Calendar(calendar) => {
                end.since(now) > Span::from_nanos(calendar.longest().as_nanos() / 4 * 3)
            }
            _ => end > now,
        };
        used > 0 && is_late && end > self.window().end_after(now)
    }

    fn clamp(&self, state: &mut FixedWindowState, now: Time) {
        let (end, used) = state.parts();
        *state = FixedWindowState::from_parts(end.min(self.window().end_after(now)), used);
    }

    fn shift_back(&self, state: &mut FixedWindowState, by: Span) {
        let (end, used) = state.parts();
        *state = FixedWindowState::from_parts(end - by, used);
    }

    /// Clamps in any case, so that windows stay aligned.
    fn rewind(&self, state: &mut FixedWindowState, _written: Option<Time>, now: Time) -> bool {
        let is_ahead = self.is_ahead(state, now);
        if is_ahead {
            self.clamp(state, now);
        }
        is_ahead
    }
}

/// A window that has not begun, which only a step of the clock explains, becomes the current one.
impl Rewind for SlidingWindow {
    type State = SlidingWindowState;

    fn is_ahead(&self, state: &SlidingWindowState, now: Time) -> bool {
        state.parts().0 > now
    }

    fn clamp(&self, state: &mut SlidingWindowState, now: Time) {
        let (_, previous, current) = state.parts();
        let start = now.as_nanos() - now.as_nanos() % self.length().as_nanos();
        *state = SlidingWindowState::from_parts(Time::from_nanos(start), previous, current);
    }

    fn shift_back(&self, state: &mut SlidingWindowState, by: Span) {
        let (start, previous, current) = state.parts();
        *state = SlidingWindowState::from_parts(start - by, previous, current);
    }

    /// Clamps in any case, so that windows stay aligned.
    fn rewind(&self, state: &mut SlidingWindowState, _written: Option<Time>, now: Time) -> bool {
        let is_ahead = self.is_ahead(state, now);
        if is_ahead {
            self.clamp(state, now);
        }
        is_ahead
    }
}

/// The newest entry is the last spend, unless that waits for its time.
impl Rewind for SlidingLog {
    type State = SlidingLogState;

    fn is_ahead(&self, state: &SlidingLogState, now: Time) -> bool {
        state.entries().next_back().is_some_and(|(newest, _)| newest > now)
    }

    fn clamp(&self, state: &mut SlidingLogState, now: Time) {
        let newest = state.entries().next_back().map_or(now, |(newest, _)| newest);
        self.shift_back(state, newest.since(now));
    }

    fn shift_back(&self, state: &mut SlidingLogState, by: Span) {
        *state = state.entries().map(|(at, cost)| (at - by, cost)).collect();
    }
}

impl Rewind for SlidingSlots {
    type State = SlidingLogState;

    fn is_ahead(&self, state: &SlidingLogState, now: Time) -> bool {
        self.log().is_ahead(state, now)
    }

    fn clamp(&self, state: &mut SlidingLogState, now: Time) {
        self.log().clamp(state, now);
    }

    fn shift_back(&self, state: &mut SlidingLogState, by: Span) {
        self.log().shift_back(state, by);
    }
}

/// Every request is paid by the next one, so every state that was just charged is ahead.
impl Rewind for WarmUp {
    type State = WarmUpState;

    fn is_ahead(&self, state: &WarmUpState, now: Time) -> bool {
        state.parts().1 > (now.as_nanos(), 0)
    }

    fn clamp(&self, state: &mut WarmUpState, now: Time) {
        let (stored, next_free) = state.parts();
        *state = WarmUpState::from_parts(stored, next_free.min((now.as_nanos(), 0)));
    }

    fn shift_back(&self, state: &mut WarmUpState, by: Span) {
        let (stored, (ns, frac)) = state.parts();
        let by = ExactNanos::whole(by.as_nanos());
        let ExactNanos { ns, frac } = ExactNanos { ns, frac }.minus(by, self.scale());
        *state = WarmUpState::from_parts(stored, (ns, frac));
    }
}

/// A lease lasts no longer than the limit says, unless it was taken under a limit with longer ones.
impl Rewind for Concurrency {
    type State = ConcurrencyState;

    fn is_ahead(&self, state: &ConcurrencyState, now: Time) -> bool {
        self.full_at(state) > now + self.lease()
    }

    fn clamp(&self, state: &mut ConcurrencyState, now: Time) {
        self.shift_back(state, self.full_at(state).since(now + self.lease()));
    }

    fn shift_back(&self, state: &mut ConcurrencyState, by: Span) {
        let leases: Vec<Lease> = state.leases().collect();
        *state = leases.into_iter().map(|l| Lease { expires: l.expires - by, ..l }).collect();
    }
}

#[cfg(test)]
mod tests;
