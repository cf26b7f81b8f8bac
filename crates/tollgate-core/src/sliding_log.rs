//! The sliding log: a record of every spend with its time, for exact decisions.
//!
//! The window is the half-open `(now - window, now]`: a spend of exactly one window ago no longer
//! counts. No interval of that length ever admits more than the limit, wherever it starts; no counter
//! can guarantee that. The price is memory: one entry for each time of a spend, at most `limit + 2` of
//! them.
//!
//! The bound needs care when a limit also counts refused requests, since they would grow the log for
//! ever. An entry is dropped once the others exceed the limit without it, because a request then has
//! to wait for a later entry anyway. The newest entry is left out of that sum, because it may still be
//! refunded.
//!
//! Rejected: a sorted set of unique ids, one for each request, as in the Redis recipes. It holds the
//! same information in ten times the space, and a request of cost 50 is 50 members.

mod state;

pub use state::SlidingLogState;

use crate::{Algorithm, InvalidLimit, Judgement, MAX_AMOUNT, MAX_FILL, Span, Time, Verdict};

/// A limit of exactly `limit` in any `window`.
///
/// ```
/// use tollgate_core::{Algorithm, Retry, SlidingLog, Span, Time};
///
/// let log = SlidingLog::new(2, Span::from_millis(100))?.min_gap(Span::from_millis(10))?;
/// let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
/// let mut state = log.fresh(at(0));
/// assert!(log.decide(&mut state, at(0), 1).allowed);
/// assert_eq!(log.decide(&mut state, at(4), 1).retry, Retry::After(Span::from_millis(6)));
/// assert!(log.decide(&mut state, at(10), 1).allowed);
/// assert_eq!(log.decide(&mut state, at(30), 1).retry, Retry::After(Span::from_millis(70)));
/// assert!(log.decide(&mut state, at(100), 1).allowed);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    limit: u64,
    window: Span,
    /// The least time between two requests; zero for none.
    gap: Span,
    counts_denied: bool,
    /// The width in nanoseconds to which times are rounded down; 1 is exact.
    slot: u64,
}

impl SlidingLog {
    /// Creates a log that allows `limit` in any `window`.
    pub fn new(limit: u64, window: Span) -> Result<SlidingLog, InvalidLimit> {
        match limit {
            0 => Err(InvalidLimit::ZeroAmount),
            _ if limit > MAX_AMOUNT => Err(InvalidLimit::AmountTooLarge(limit)),
            _ if window.is_zero() => Err(InvalidLimit::ZeroPeriod),
            _ if window > MAX_FILL => Err(InvalidLimit::PeriodTooLong),
            _ => Ok(SlidingLog { limit, window, gap: Span::ZERO, counts_denied: false, slot: 1 }),
        }
    }

    /// Sets the least time between two requests; none by default.
    pub fn min_gap(self, gap: Span) -> Result<SlidingLog, InvalidLimit> {
        match gap > self.window {
            true => Err(InvalidLimit::GapAboveWindow),
            false => Ok(SlidingLog { gap, ..self }),
        }
    }

    /// Counts refused requests as spent, so that retrying early does not help.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Retry, SlidingLog, Span, Time};
    /// let log = SlidingLog::new(1, Span::from_secs(60))?.count_denied();
    /// let at = |secs| Time::EPOCH + Span::from_secs(secs);
    /// let mut state = log.fresh(at(0));
    /// assert!(log.decide(&mut state, at(0), 1).allowed);
    /// assert!(!log.decide(&mut state, at(50), 1).allowed);
    /// assert!(!log.decide(&mut state, at(70), 1).allowed); // the attempt at 50 still counts
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn count_denied(self) -> SlidingLog {
        SlidingLog { counts_denied: true, ..self }
    }

    /// Returns the length of the window.
    pub fn window(&self) -> Span {
        self.window
    }

    /// Returns the least time between two requests.
    pub fn gap(&self) -> Span {
        self.gap
    }

    /// Returns the width of a slot in nanoseconds, counted from the Unix epoch.
    ///
    /// All spends of one slot expire together.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// Sets the width of a slot, whose spends expire together.
    pub(crate) fn in_slots(self, width: u64) -> SlidingLog {
        SlidingLog { slot: width, ..self }
    }

    /// Returns how long until a spend at `at` expires.
    fn expires_in(&self, at: Time, now: Time) -> Span {
        (self.window + at.since(now)) - now.since(at)
    }

    /// Returns how long until `cost` more fits under the limit.
    fn fits_in(&self, state: &SlidingLogState, now: Time, cost: u64) -> Span {
        let mut excess = (state.total + u128::from(cost)).saturating_sub(u128::from(self.limit));
        let mut wait = Span::ZERO;
        for entry in &state.entries {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u128::from(entry.cost));
            wait = self.expires_in(entry.at, now);
        }
        wait
    }

    /// Returns how long until a request of `cost` would pass and leave `reserve`.
    ///
    /// Both the limit and the gap must allow it. A cost of zero is not a request and needs no gap.
    fn passes_in(&self, state: &SlidingLogState, now: Time, cost: u64, reserve: u64) -> Span {
        let wait = self.fits_in(state, now, cost.saturating_add(reserve));
        match state.entries.back() {
            Some(newest) if cost > 0 && !self.gap.is_zero() => {
                wait.max((newest.at + self.gap).since(now))
            }
            _ => wait,
        }
    }

    fn forget(&self, state: &mut SlidingLogState, now: Time) {
        while state.entries.front().is_some_and(|oldest| self.expires_in(oldest.at, now).is_zero())
        {
            state.drop_oldest();
        }
    }

    fn record(&self, state: &mut SlidingLogState, at: Time, cost: u64) {
        if cost == 0 {
            return;
        }
        let at = Time::from_nanos(at.as_nanos() / self.slot * self.slot);
        state.push(at, cost, self.gap.is_zero());
        while let (Some(oldest), Some(newest)) = (state.entries.front(), state.entries.back()) {
            let both = u128::from(oldest.cost) + u128::from(newest.cost);
            if state.total.saturating_sub(both) <= u128::from(self.limit) {
                break;
            }
            state.drop_oldest();
        }
    }
}

impl Algorithm for SlidingLog {
    type State = SlidingLogState;

    fn fresh(&self, _now: Time) -> SlidingLogState {
        SlidingLogState::default()
    }

    fn charge(&self, state: &mut SlidingLogState, now: Time, cost: i64) {
        self.forget(state, now);
        match cost {
            0.. => self.record(state, now, cost.unsigned_abs()),
            _ => state.take_back(cost.unsigned_abs()),
        }
    }

    fn judge(&self, state: &SlidingLogState, now: Time) -> Judgement {
        let mut back = state.entries.iter().rev();
        let (newest, previous) = (back.next(), back.next());
        let too_close = match (previous, newest) {
            (Some(p), Some(n)) if n.at.since(p.at) < self.gap => (p.at + self.gap).since(now),
            _ => Span::ZERO,
        };
        Judgement {
            overdrawn: self.fits_in(state, now, 0).max(too_close),
            delay: Span::ZERO,
            remaining: self.limit.saturating_sub(self.used(state, now)),
            reset_after: newest.map_or(Span::ZERO, |newest| self.expires_in(newest.at, now)),
        }
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: &SlidingLogState, now: Time) -> u64 {
        let gone = state.entries.iter().take_while(|e| self.expires_in(e.at, now).is_zero());
        let live = state.total - gone.map(|e| u128::from(e.cost)).sum::<u128>();
        u64::try_from(live).unwrap_or(u64::MAX)
    }

    fn full_at(&self, state: &SlidingLogState) -> Time {
        state.entries.back().map_or(Time::EPOCH, |newest| newest.at + self.window)
    }

    fn counts_denied(&self) -> bool {
        self.counts_denied
    }

    fn retry_after(&self, before: &SlidingLogState, now: Time, cost: i64) -> Span {
        self.passes_in(before, now, u64::try_from(cost).unwrap_or(0), 0)
    }

    fn retry_after_leaving(
        &self,
        before: &SlidingLogState,
        now: Time,
        cost: u64,
        reserve: u64,
    ) -> Span {
        self.passes_in(before, now, cost, reserve)
    }

    fn reserve(
        &self,
        state: &mut SlidingLogState,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        self.reserve_in_place(state, now, cost, max_wait)
    }

    /// Judges before it charges, so that a refused request leaves the log unchanged.
    ///
    /// A request that waits is recorded at the time it is due.
    fn attempt(
        &self,
        state: &mut SlidingLogState,
        now: Time,
        cost: u64,
        max_wait: Span,
    ) -> Verdict {
        let wait = self.passes_in(state, now, cost, 0);
        let max_wait = if self.counts_denied { Span::ZERO } else { max_wait };
        let allowed = wait <= max_wait && self.can_hold(cost);
        if allowed {
            self.forget(state, now);
            self.record(state, now + wait, cost);
        }
        let retry = self.retry(allowed, cost, wait);
        Verdict { allowed, wait, retry, ..Verdict::allow(self.limit, self.judge(state, now)) }
    }

    fn peek(&self, state: &SlidingLogState, now: Time) -> Judgement {
        self.judge(state, now)
    }
}

#[cfg(test)]
mod tests;
