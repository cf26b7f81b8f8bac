//! The sliding window cut into slots: 500 an hour as the sum of sixty one-minute counters.
//!
//! The window is the current slot and the `N - 1` before it, so it moves on by one slot at a
//! time, and so does what was spent. Between the [sliding log](crate::SlidingLog) (exact, one
//! entry for each spend) and two weighted counters (tiny, an estimate) this is the one whose
//! error is known: no interval as long as `N - 1` slots ever admits more than the limit. Its
//! memory is fixed and every answer is a sum of integers.
//!
//! Slots are aligned to the Unix epoch, so that every host cuts time at the same places.
//!
//! Rejected: a map from slot to count, as most implementations keep. A ring needs no keys, no
//! clean-up pass and no second allocation, and finds the oldest slot without a search.

mod state;

use core::ops::RangeInclusive;

pub use state::SlidingSlotsState;

use crate::{
    Algorithm, InvalidLimit, MAX_AMOUNT, MAX_FILL, MAX_SLOTS, Span, Standing, Time, Verdict,
};

/// At most `limit` in the current slot and the `slots - 1` before it.
///
/// ```
/// use tollgate_core::{Algorithm, Retry, SlidingSlots, Span, Time};
///
/// let hourly = SlidingSlots::new(500, Span::from_secs(3600), 60)?;
/// let at = |minutes: u64, seconds: u64| Time::EPOCH + Span::from_secs(minutes * 60 + seconds);
/// let mut state = hourly.fresh(at(0, 0));
/// assert!(hourly.decide(&mut state, at(0, 30), 400).allowed);
/// assert!(hourly.decide(&mut state, at(20, 0), 100).allowed);
/// // The first 400 leave when their minute is an hour old.
/// let denied = hourly.decide(&mut state, at(59, 50), 1);
/// assert_eq!(denied.retry, Retry::After(Span::from_secs(10)));
/// assert_eq!(hourly.decide(&mut state, at(60, 0), 1).remaining, 399);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingSlots {
    limit: u64,
    slots: u32,
    /// Nanoseconds in one slot.
    width: u64,
}

impl SlidingSlots {
    /// Lets `limit` pass in `window`, which is cut into `slots` equal parts (at least two).
    pub fn new(limit: u64, window: Span, slots: u32) -> Result<SlidingSlots, InvalidLimit> {
        let nanos = window.as_nanos();
        match limit {
            0 => Err(InvalidLimit::ZeroAmount),
            _ if limit > MAX_AMOUNT => Err(InvalidLimit::AmountTooLarge(limit)),
            _ if nanos == 0 => Err(InvalidLimit::ZeroPeriod),
            _ if window > MAX_FILL => Err(InvalidLimit::PeriodTooLong),
            _ if slots < 2 => Err(InvalidLimit::TooFewSlots(slots)),
            _ if slots > MAX_SLOTS => Err(InvalidLimit::TooManySlots(slots)),
            _ if !nanos.is_multiple_of(slots.into()) => Err(InvalidLimit::UnevenSlots(slots)),
            _ => Ok(SlidingSlots { limit, slots, width: nanos / u64::from(slots) }),
        }
    }

    fn slot_of(&self, now: Time) -> u64 {
        now.as_nanos() / self.width
    }

    fn place(&self, slot: u64) -> usize {
        (slot % u64::from(self.slots)) as usize
    }

    /// The slots kept, oldest first: their numbers and what was spent in them.
    fn kept(&self, state: &SlidingSlotsState) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        let spent = |slot| state.ring.get(self.place(slot)).copied().unwrap_or(0);
        self.numbers(state).map(move |slot| (slot, spent(slot)))
    }

    fn numbers(&self, state: &SlidingSlotsState) -> RangeInclusive<u64> {
        state.newest.saturating_sub(u64::from(self.slots) - 1)..=state.newest
    }

    /// The newest slot in which anything was spent.
    fn last_spent(&self, state: &SlidingSlotsState) -> Option<u64> {
        let mut slots = self.kept(state).rev().filter(|&(_, spent)| spent > 0);
        slots.next().filter(|_| state.total > 0).map(|(slot, _)| slot)
    }

    /// How long until `slot` is no longer part of the window.
    fn leaves_in(&self, slot: u64, now: Time) -> Span {
        let gone = (u128::from(slot) + u128::from(self.slots)) * u128::from(self.width);
        let wait = gone.saturating_sub(u128::from(now.as_nanos()));
        Span::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// How long until `cost` more fits under the limit, behind those who wait in line.
    fn passes_in(&self, state: &SlidingSlotsState, now: Time, cost: u64) -> Span {
        let mut excess = (state.total + u128::from(cost)).saturating_sub(u128::from(self.limit));
        let mut wait = state.line.since(now);
        for (slot, spent) in self.kept(state) {
            if excess == 0 {
                break;
            }
            if spent > 0 {
                excess = excess.saturating_sub(u128::from(spent));
                wait = wait.max(self.leaves_in(slot, now));
            }
        }
        wait
    }

    /// Moves the window on to the slot of `now`; a clock that went back stays in the newest.
    fn advance(&self, state: &mut SlidingSlotsState, now: Time) {
        let slot = self.slot_of(now).max(state.newest);
        let passed = (slot - state.newest).min(u64::from(self.slots));
        if state.total > 0 {
            for old in slot - passed..slot {
                if let Some(counter) = state.ring.get_mut(self.place(old + 1)) {
                    state.total -= u128::from(core::mem::take(counter));
                }
            }
        }
        state.newest = slot;
    }

    fn spend(&self, state: &mut SlidingSlotsState, cost: u64) {
        if state.ring.is_empty() && cost > 0 {
            state.ring.resize(self.slots as usize, 0);
        }
        if let Some(counter) = state.ring.get_mut(self.place(state.newest)) {
            let added = cost.min(u64::MAX - *counter);
            *counter += added;
            state.total += u128::from(added);
        }
    }

    /// Takes back from the newest slot first. Those in line were let in over slots forgotten
    /// since, at most a limit's worth: only what gives that back as well ends the line.
    fn take_back(&self, state: &mut SlidingSlotsState, mut cost: u64) {
        for slot in self.numbers(state).rev() {
            let Some(counter) = state.ring.get_mut(self.place(slot)).filter(|_| cost > 0) else {
                break;
            };
            let part = cost.min(*counter);
            *counter -= part;
            cost -= part;
            state.total -= u128::from(part);
        }
        if cost >= self.limit {
            state.line = Time::EPOCH;
        }
    }
}

impl Algorithm for SlidingSlots {
    type State = SlidingSlotsState;

    fn fresh(&self, now: Time) -> SlidingSlotsState {
        SlidingSlotsState { newest: self.slot_of(now), ..SlidingSlotsState::default() }
    }

    fn charge(&self, state: &mut SlidingSlotsState, now: Time, cost: i64) {
        self.advance(state, now);
        match cost {
            0.. => self.spend(state, cost.unsigned_abs()),
            _ => self.take_back(state, cost.unsigned_abs()),
        }
    }

    fn judge(&self, state: &SlidingSlotsState, now: Time) -> Standing {
        let line = state.line.since(now);
        let in_use = self.last_spent(state).map_or(Span::ZERO, |slot| self.leaves_in(slot, now));
        Standing {
            overdrawn: self.passes_in(state, now, 0),
            delay: Span::ZERO,
            remaining: match line.is_zero() {
                true => self.limit.saturating_sub(self.used(state, now)),
                false => 0,
            },
            reset_after: in_use.max(line),
        }
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: &SlidingSlotsState, now: Time) -> u64 {
        let gone = self.kept(state).take_while(|&(slot, _)| self.leaves_in(slot, now).is_zero());
        let live = state.total - gone.map(|(_, spent)| u128::from(spent)).sum::<u128>();
        u64::try_from(live).unwrap_or(u64::MAX)
    }

    fn full_at(&self, state: &SlidingSlotsState) -> Time {
        let unused = |slot| Time::EPOCH + self.leaves_in(slot, Time::EPOCH);
        self.last_spent(state).map_or(Time::EPOCH, unused).max(state.line)
    }

    fn retry_after(&self, before: &SlidingSlotsState, now: Time, cost: i64) -> Span {
        self.passes_in(before, now, u64::try_from(cost).unwrap_or(0))
    }

    fn reserve(
        &self,
        state: &mut SlidingSlotsState,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        self.reserve_in_place(state, now, cost, max_wait)
    }

    /// Looks before it spends: a refused request leaves the counters as they were. A place in
    /// line is spent in the slot it is due in.
    fn attempt(
        &self,
        state: &mut SlidingSlotsState,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        let wait = self.passes_in(state, now, cost);
        let allowed = wait <= max_wait && self.can_hold(cost);
        if allowed && !wait.is_zero() {
            state.line = now + wait;
        }
        if allowed {
            self.advance(state, now + wait);
            self.spend(state, cost);
        }
        Verdict { allowed, wait, ..Verdict::allow(self.limit, self.judge(state, now)) }
    }

    fn peek(&self, state: &SlidingSlotsState, now: Time) -> Standing {
        self.judge(state, now)
    }
}

#[cfg(test)]
mod tests;
