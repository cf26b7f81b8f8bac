//! How many may be at work at once, each holding a lease that expires.
//!
//! A plain counter of requests in flight leaks: whoever crashes between taking a slot and
//! giving it back keeps it for ever. Here every holder has a lease with an end. It is released
//! by its id, renewed by a holder that takes long, or runs out; and a late release finds its
//! lease gone instead of freeing somebody else's slot.
//!
//! This is not an [`Algorithm`](crate::Algorithm): what is spent comes back when its holder says
//! so, not when time passes, so giving back needs an id, and "charge a negative cost" has no
//! meaning. The names are the same where they mean the same.
//!
//! Rejected: a count with a heartbeat for the whole process. It frees slots only all together,
//! and only once the process is surely dead.

mod state;

pub use state::ConcurrencyState;

use crate::{InvalidLimit, MAX_AMOUNT, MAX_FILL, Retry, Span, Standing, Time, Verdict};

/// At most `limit` in flight, each for a `lease` that can be renewed.
///
/// ```
/// use tollgate_core::{Concurrency, ConcurrencyState, Retry, Span, Time};
///
/// let limit = Concurrency::new(2, Span::from_secs(30))?;
/// let at = |secs: u64| Time::EPOCH + Span::from_secs(secs);
/// let mut state = ConcurrencyState::default();
/// assert!(limit.acquire(&mut state, at(0), 1, 71).allowed);
/// assert!(limit.acquire(&mut state, at(10), 1, 72).allowed);
/// let denied = limit.acquire(&mut state, at(20), 1, 73);
/// assert_eq!(denied.retry, Retry::After(Span::from_secs(10))); // if 71 is never released
/// assert!(limit.release(&mut state, at(25), 72));
/// assert!(limit.acquire(&mut state, at(25), 1, 73).allowed);
/// assert!(!limit.release(&mut state, at(31), 71)); // too late: it ran out at 30
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    limit: u64,
    lease: Span,
}

/// A place among those in flight.
///
/// ```
/// use tollgate_core::{Lease, Time};
/// let lease = Lease { id: 7, cost: 1, expires: Time::from_nanos(9) };
/// assert_eq!(lease.expires.as_nanos(), 9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Names the holder; unique among those of one key.
    pub id: u64,
    /// How many places it takes.
    pub cost: u64,
    /// From this moment on it is gone.
    pub expires: Time,
}

impl Concurrency {
    /// A limit of `limit` in flight; a holder that is not heard of for `lease` is given up.
    pub fn new(limit: u64, lease: Span) -> Result<Concurrency, InvalidLimit> {
        match limit {
            0 => Err(InvalidLimit::ZeroAmount),
            _ if limit > MAX_AMOUNT => Err(InvalidLimit::AmountTooLarge(limit)),
            _ if lease.is_zero() => Err(InvalidLimit::ZeroPeriod),
            _ if lease > MAX_FILL => Err(InvalidLimit::PeriodTooLong),
            _ => Ok(Concurrency { limit, lease }),
        }
    }

    /// The same with another limit, at least 1, as an adaptive controller moves it. Nobody in
    /// flight is thrown out: below what is in flight, requests are denied until enough left.
    ///
    /// ```
    /// use tollgate_core::{Concurrency, ConcurrencyState, Span, Time};
    /// let (now, two) = (Time::EPOCH, Concurrency::new(2, Span::from_secs(30))?);
    /// let mut state = ConcurrencyState::default();
    /// two.acquire(&mut state, now, 2, 71);
    /// let one = two.with_limit(1);
    /// assert_eq!(one.in_flight(&state, now), 2);
    /// assert!(!one.acquire(&mut state, now, 1, 72).allowed);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn with_limit(self, limit: u64) -> Concurrency {
        Concurrency { limit: limit.clamp(1, MAX_AMOUNT), ..self }
    }

    /// How long a holder that is not heard of keeps its place.
    pub fn lease(&self) -> Span {
        self.lease
    }

    /// The most that can be in flight.
    pub fn capacity(&self) -> u64 {
        self.limit
    }

    /// Takes `cost` places for `id`, if there is room; a denied request changes nothing.
    ///
    /// The retry of a denied request assumes that nobody releases early. An `id` that is still
    /// in flight has its lease replaced, so a repeated message does no harm. A cost of nothing
    /// asks whether the limit holds, and takes no lease.
    pub fn acquire(&self, state: &mut ConcurrencyState, now: Time, cost: u64, id: u64) -> Verdict {
        self.acquire_leaving(state, now, cost, 0, id)
    }

    /// Like [`acquire`](Concurrency::acquire), if `reserve` places stay free: as many of them as
    /// there are beside `cost`, so that whoever fits alone fits at some time.
    ///
    /// ```
    /// use tollgate_core::{Concurrency, ConcurrencyState, Span, Time};
    /// let limit = Concurrency::new(3, Span::from_secs(30))?;
    /// let mut state = ConcurrencyState::default();
    /// let mut acquire =
    ///     |id, reserve| limit.acquire_leaving(&mut state, Time::EPOCH, 1, reserve, id).allowed;
    /// assert!(acquire(71, 2)); // two are free
    /// assert!(!acquire(72, 2));
    /// assert!(acquire(73, 0));
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn acquire_leaving(
        &self,
        state: &mut ConcurrencyState,
        now: Time,
        cost: u64,
        reserve: u64,
        id: u64,
    ) -> Verdict {
        state.forget_expired(now);
        let replaced = state.take(id);
        let reserve = reserve.min(self.limit.saturating_sub(cost));
        let wait = self.room_in(state, now, cost.saturating_add(reserve));
        let allowed = wait.is_zero() && cost <= self.limit;
        let kept = match allowed && cost > 0 {
            true => Some(Lease { id, cost, expires: now + self.lease }),
            false => replaced,
        };
        kept.into_iter().for_each(|lease| state.insert(lease));
        let standing = self.peek(state, now);
        if allowed {
            return Verdict::allow(self.limit, standing);
        }
        let retry = if cost > self.limit { Retry::Never } else { Retry::After(wait) };
        Verdict::deny(self.limit, standing, retry)
    }

    /// Ends the lease of `id`; false if it is already gone, and then nothing changes.
    pub fn release(&self, state: &mut ConcurrencyState, now: Time, id: u64) -> bool {
        state.forget_expired(now);
        state.take(id).is_some()
    }

    /// Starts the lease of `id` anew; false if it is already gone.
    ///
    /// ```
    /// use tollgate_core::{Concurrency, ConcurrencyState, Span, Time};
    /// let limit = Concurrency::new(1, Span::from_secs(30))?;
    /// let at = |secs| Time::EPOCH + Span::from_secs(secs);
    /// let mut state = ConcurrencyState::default();
    /// limit.acquire(&mut state, at(0), 1, 71);
    /// assert!(limit.renew(&mut state, at(20), 71)); // until 50
    /// assert!(!limit.acquire(&mut state, at(40), 1, 72).allowed);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn renew(&self, state: &mut ConcurrencyState, now: Time, id: u64) -> bool {
        state.forget_expired(now);
        let Some(lease) = state.take(id) else { return false };
        state.insert(Lease { expires: lease.expires.max(now + self.lease), ..lease });
        true
    }

    /// How many places are taken at `now`.
    pub fn in_flight(&self, state: &ConcurrencyState, now: Time) -> u64 {
        let gone = state.leases().take_while(|lease| lease.expires <= now);
        let left = gone.fold(state.total(), |left, lease| left - u128::from(lease.cost));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// How things stand, with nothing taken; `overdrawn` is above zero only after the limit was
    /// lowered below what is in flight.
    pub fn peek(&self, state: &ConcurrencyState, now: Time) -> Standing {
        Standing {
            overdrawn: self.room_in(state, now, 0),
            delay: Span::ZERO,
            remaining: self.limit.saturating_sub(self.in_flight(state, now)),
            reset_after: self.full_at(state).since(now),
        }
    }

    /// From when on nobody is in flight, if no lease is renewed.
    pub fn full_at(&self, state: &ConcurrencyState) -> Time {
        state.last_end().unwrap_or(Time::EPOCH)
    }

    /// How long until `cost` more fits, if nobody releases early.
    fn room_in(&self, state: &ConcurrencyState, now: Time, cost: u64) -> Span {
        let mut excess = (state.total() + u128::from(cost)).saturating_sub(u128::from(self.limit));
        let mut wait = Span::ZERO;
        for lease in state.leases() {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u128::from(lease.cost));
            wait = lease.expires.since(now);
        }
        wait
    }
}

#[cfg(test)]
mod tests;
