//! A limit on requests in flight, each with a lease that expires.
//!
//! A plain counter of requests in flight leaks: a client that crashes between acquire and release
//! keeps its permit for ever. Here every holder has a lease that expires. It is released by its id, or
//! renewed if the request takes long, or it expires. A late release finds its lease gone and does not
//! free the permit of another holder.
//!
//! This is not an [`Algorithm`](crate::Algorithm): permits come back when their holder releases them,
//! not when time passes, so a release needs an id, and charging a negative cost has no meaning. The
//! method names are equal where the meaning is.
//!
//! Rejected: a count with a heartbeat for the whole process. It frees permits only all together, and
//! only once the process is surely dead.

mod state;

pub use state::ConcurrencyState;

use crate::{InvalidLimit, Judgement, MAX_AMOUNT, MAX_FILL, Retry, Span, Time, Verdict};

/// A limit of `limit` permits in flight, each with a `lease` that can be renewed.
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
/// assert!(!limit.release(&mut state, at(31), 71)); // too late: it expired at 30
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Concurrency {
    limit: u64,
    lease: Span,
}

/// The permits of one holder.
///
/// ```
/// use tollgate_core::{Lease, Time};
/// let lease = Lease { id: 7, cost: 1, expires: Time::from_nanos(9) };
/// assert_eq!(lease.expires.as_nanos(), 9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The id of the holder, unique within one key.
    pub id: u64,
    /// The number of permits.
    pub cost: u64,
    /// The time at which the lease ends.
    pub expires: Time,
}

impl Concurrency {
    /// Creates a limit of `limit` in flight, with leases of length `lease`.
    pub fn new(limit: u64, lease: Span) -> Result<Concurrency, InvalidLimit> {
        match limit {
            0 => Err(InvalidLimit::ZeroAmount),
            _ if limit > MAX_AMOUNT => Err(InvalidLimit::AmountTooLarge(limit)),
            _ if lease.is_zero() => Err(InvalidLimit::ZeroPeriod),
            _ if lease > MAX_FILL => Err(InvalidLimit::PeriodTooLong),
            _ => Ok(Concurrency { limit, lease }),
        }
    }

    /// Sets another limit, at least 1, as an adaptive controller does.
    ///
    /// Requests in flight are not affected. If more are in flight than the new limit, further requests
    /// are denied until enough of them have finished.
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

    /// Returns the length of a lease that is not renewed.
    pub fn lease(&self) -> Span {
        self.lease
    }

    /// Returns the most permits that can be in flight.
    pub fn capacity(&self) -> u64 {
        self.limit
    }

    /// Takes `cost` permits for `id`, if they are free; a denied request changes nothing.
    ///
    /// The retry of a denied request assumes that all leases run to their end. An `id` that is still
    /// in flight has its lease replaced, so a repeated message does no harm. A cost of zero checks the
    /// limit and takes no lease.
    pub fn acquire(&self, state: &mut ConcurrencyState, now: Time, cost: u64, id: u64) -> Verdict {
        self.acquire_leaving(state, now, cost, 0, id)
    }

    /// Like [`acquire`](Concurrency::acquire), but `reserve` permits must stay free.
    ///
    /// The reserve is cut to what the limit has beside `cost`, so that a request that fits alone fits at
    /// some time.
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
        let wait = self.fits_in(state, now, cost.saturating_add(reserve));
        let allowed = wait.is_zero() && cost <= self.limit;
        let lease = match allowed && cost > 0 {
            true => Some(Lease { id, cost, expires: now + self.lease }),
            false => replaced,
        };
        lease.into_iter().for_each(|lease| state.insert(lease));
        let judgement = self.peek(state, now);
        if allowed {
            return Verdict::allow(self.limit, judgement);
        }
        let retry = if cost > self.limit { Retry::Never } else { Retry::After(wait) };
        Verdict::deny(self.limit, judgement, retry)
    }

    /// Ends the lease of `id`; returns false if it has already ended.
    pub fn release(&self, state: &mut ConcurrencyState, now: Time, id: u64) -> bool {
        state.forget_expired(now);
        state.take(id).is_some()
    }

    /// Restarts the lease of `id`; returns false if it has already ended.
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

    /// Returns the number of permits in flight at `now`.
    pub fn in_flight(&self, state: &ConcurrencyState, now: Time) -> u64 {
        let gone = state.leases().take_while(|lease| lease.expires <= now);
        let left = gone.fold(state.total(), |left, lease| left - u128::from(lease.cost));
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// Judges the state at `now` without taking anything.
    ///
    /// The field `overdrawn` is above zero only after the limit was lowered below what is in flight.
    pub fn peek(&self, state: &ConcurrencyState, now: Time) -> Judgement {
        Judgement {
            overdrawn: self.fits_in(state, now, 0),
            delay: Span::ZERO,
            remaining: self.limit.saturating_sub(self.in_flight(state, now)),
            reset_after: self.full_at(state).since(now),
        }
    }

    /// Returns the time from which nothing is in flight, if no lease is renewed.
    pub fn full_at(&self, state: &ConcurrencyState) -> Time {
        state.last_expiry().unwrap_or(Time::EPOCH)
    }

    /// Returns how long until `cost` more fits, if all leases run to their end.
    fn fits_in(&self, state: &ConcurrencyState, now: Time, cost: u64) -> Span {
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
