//! The sliding window counter: the count of this window plus a share of the previous one.
//!
//! Two counters replace a log of every request. The requests of the previous window are assumed to be
//! evenly spread, so the part of it within one window's length of now counts:
//! `previous * (length - elapsed) / length + current`, rounded down to whole requests. Cloudflare
//! found that 0.003 % of decisions differ from an exact log. Where none may, use a sliding log.

use crate::{Algorithm, InvalidLimit, Judgement, MAX_AMOUNT, MAX_FILL, Span, Time};

/// A limit of `limit` in any interval of `length`, estimated from two counters.
///
/// ```
/// use tollgate_core::{Algorithm, SlidingWindow, SlidingWindowState, Span, Time};
///
/// let window = SlidingWindow::new(10, Span::from_secs(60))?;
/// let minute = Time::from_nanos(60_000_000_000);
/// // Ten in the last minute, six so far, twenty seconds in: 10 * 40/60 + 6 = 12.67.
/// let mut state = SlidingWindowState::from_parts(minute, 10, 6);
/// assert!(!window.decide(&mut state, minute + Span::from_secs(20), 1).allowed);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    limit: u64,
    length: u64,
    counts_denied: bool,
}

/// The counts of the window that starts at `start` and of the one before it.
///
/// ```
/// use tollgate_core::{Algorithm, SlidingWindow, Span, Time};
/// let window = SlidingWindow::new(10, Span::from_nanos(100))?;
/// let mut state = window.fresh(Time::EPOCH);
/// window.charge(&mut state, Time::from_nanos(250), 3);
/// assert_eq!(state.parts(), (Time::from_nanos(200), 0, 3));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlidingWindowState {
    start: Time,
    previous: u64,
    current: u64,
}

impl SlidingWindowState {
    /// Creates the state of two counts, where the current window starts at `start`.
    pub const fn from_parts(start: Time, previous: u64, current: u64) -> SlidingWindowState {
        SlidingWindowState { start, previous, current }
    }

    /// Returns the start of the current window, the previous count and the current one.
    pub const fn parts(self) -> (Time, u64, u64) {
        (self.start, self.previous, self.current)
    }
}

impl SlidingWindow {
    /// Creates a limit of `limit` in any interval of `length`.
    pub fn new(limit: u64, length: Span) -> Result<SlidingWindow, InvalidLimit> {
        match limit {
            0 => Err(InvalidLimit::ZeroAmount),
            _ if limit > MAX_AMOUNT => Err(InvalidLimit::AmountTooLarge(limit)),
            _ if length.is_zero() => Err(InvalidLimit::ZeroPeriod),
            _ if length > MAX_FILL => Err(InvalidLimit::PeriodTooLong),
            _ => Ok(SlidingWindow { limit, length: length.as_nanos(), counts_denied: false }),
        }
    }

    /// Counts refused requests too.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, SlidingWindow, Span, Time};
    /// let window = SlidingWindow::new(2, Span::from_secs(60))?.count_denied();
    /// let mut state = window.fresh(Time::EPOCH);
    /// window.decide(&mut state, Time::EPOCH, 1);
    /// assert!(!window.decide(&mut state, Time::EPOCH, 2).allowed); // but it is spent
    /// assert!(!window.decide(&mut state, Time::EPOCH, 1).allowed);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn count_denied(mut self) -> SlidingWindow {
        self.counts_denied = true;
        self
    }

    /// Returns the length of the window.
    pub fn length(&self) -> Span {
        Span::from_nanos(self.length)
    }

    /// Returns the state at `now`, with the counters of the window that contains it.
    fn rolled(&self, state: &SlidingWindowState, now: Time) -> SlidingWindowState {
        match now.since(state.start).as_nanos() {
            since if since < self.length => *state,
            since if since - self.length < self.length => SlidingWindowState {
                start: state.start + self.length(),
                previous: state.current,
                current: 0,
            },
            _ => SlidingWindowState {
                start: Time::from_nanos(now.as_nanos() / self.length * self.length),
                previous: 0,
                current: 0,
            },
        }
    }

    /// Returns the estimate of whole requests in the last `length`.
    #[inline]
    fn estimate(&self, state: &SlidingWindowState, now: Time) -> u64 {
        let left = self.length.saturating_sub(now.since(state.start).as_nanos());
        let faded = match state.previous.checked_mul(left) {
            Some(product) => product / self.length,
            None => {
                (u128::from(state.previous) * u128::from(left) / u128::from(self.length)) as u64
            }
        };
        faded.saturating_add(state.current)
    }

    /// Returns the first time at or after `now` at which the estimate is at most `target`.
    fn falls_to(&self, state: &SlidingWindowState, now: Time, target: u64) -> Time {
        if self.estimate(state, now) <= target {
            return now;
        }
        if state.current <= target {
            return self.fades_to(state.start, state.previous, target - state.current);
        }
        self.fades_to(state.start + self.length(), state.current, target)
    }

    /// Returns when the share of `count`, which is whole at `start`, has fallen to `target`.
    fn fades_to(&self, start: Time, count: u64, target: u64) -> Time {
        // count * (length - elapsed) / length < target + 1
        let bound = (u128::from(target) + 1) * u128::from(self.length);
        let left = bound.div_ceil(u128::from(count.max(1))) - 1;
        start
            + Span::from_nanos(self.length.saturating_sub(u64::try_from(left).unwrap_or(u64::MAX)))
    }
}

impl Algorithm for SlidingWindow {
    type State = SlidingWindowState;

    fn fresh(&self, _now: Time) -> SlidingWindowState {
        SlidingWindowState::default()
    }

    #[inline]
    fn charge(&self, state: &mut SlidingWindowState, now: Time, cost: i64) {
        *state = self.rolled(state, now);
        if cost >= 0 {
            state.current = state.current.saturating_add(cost.unsigned_abs());
        } else {
            let back = cost.unsigned_abs();
            let older = back.saturating_sub(state.current);
            state.current = state.current.saturating_sub(back);
            state.previous = state.previous.saturating_sub(older);
        }
    }

    #[inline]
    fn judge(&self, state: &SlidingWindowState, now: Time) -> Judgement {
        let state = self.rolled(state, now);
        let used = self.estimate(&state, now);
        Judgement {
            overdrawn: match used > self.limit {
                true => self.falls_to(&state, now, self.limit).since(now),
                false => Span::ZERO,
            },
            delay: Span::ZERO,
            remaining: self.limit.saturating_sub(used),
            reset_after: self.falls_to(&state, now, 0).since(now),
        }
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: &SlidingWindowState, now: Time) -> u64 {
        self.estimate(&self.rolled(state, now), now)
    }

    fn full_at(&self, state: &SlidingWindowState) -> Time {
        self.falls_to(state, state.start, 0)
    }

    fn counts_denied(&self) -> bool {
        self.counts_denied
    }

    /// Returns when a later request passes; a reservation would count from its arrival instead.
    fn retry_after(&self, before: &SlidingWindowState, now: Time, cost: i64) -> Span {
        let target = self.limit.saturating_sub(cost.unsigned_abs());
        self.falls_to(&self.rolled(before, now), now, target).since(now)
    }
}

#[cfg(test)]
mod tests;
