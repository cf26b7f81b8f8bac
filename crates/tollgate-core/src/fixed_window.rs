//! The fixed window: an amount per window, and a fresh start in the next one.
//!
//! Windows are aligned to the Unix epoch (what Envoy's reference service does), to the first
//! request of a key, or to the calendar. Spending may run ahead into later windows: an overdraft of a
//! settlement or a reservation is taken off the windows that follow, up to one limit each, as
//! resilience4j does.
//!
//! The known weakness of fixed windows: a burst at the end of one window and another at the start
//! of the next pass together, twice the limit within one window's length. Use a sliding window
//! where that matters.

use alloc::sync::Arc;
use core::fmt;

use crate::{Algorithm, InvalidLimit, Judgement, MAX_AMOUNT, MAX_FILL, Span, Time};

/// The most calendar periods a debt can take, because their ends are computed one by one.
const MAX_PERIODS: u64 = 1000;

/// The periods of a calendar.
///
/// This crate has no time zones; the caller implements the trait.
///
/// ```
/// use std::sync::Arc;
/// use tollgate_core::{Algorithm, Calendar, FixedWindow, Span, Time, Window};
///
/// /// A single period.
/// #[derive(Debug)]
/// struct Once(Time);
///
/// impl Calendar for Once {
///     fn period_end(&self, now: Time) -> Time {
///         if now < self.0 { self.0 } else { Time::MAX }
///     }
///     fn longest(&self) -> Span {
///         Span::MAX
///     }
/// }
///
/// let end = Time::from_nanos(100);
/// let sale = FixedWindow::new(5, Window::Calendar(Arc::new(Once(end))))?;
/// let mut state = sale.fresh(Time::EPOCH);
/// assert_eq!(sale.decide(&mut state, Time::EPOCH, 5).reset_after, Span::from_nanos(100));
/// assert_eq!(sale.peek(&state, end).remaining, 5);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
pub trait Calendar: fmt::Debug + Send + Sync {
    /// Returns the end of the period that contains `now`, strictly after it.
    fn period_end(&self, now: Time) -> Time;

    /// Returns the longest possible length of a period.
    fn longest(&self) -> Span;
}

/// How the windows of a key are aligned in time.
///
/// ```
/// use tollgate_core::{Algorithm, FixedWindow, Span, Time, Window};
/// let (length, at) = (Span::from_secs(60), |secs| Time::EPOCH + Span::from_secs(secs));
/// for (window, resets_in) in [(Window::epoch(length), 10), (Window::FirstHit { length }, 60)] {
///     let window = FixedWindow::new(5, window)?;
///     let verdict = window.decide(&mut window.fresh(at(50)), at(50), 1);
///     assert_eq!(verdict.reset_after, Span::from_secs(resets_in));
/// }
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
pub enum Window {
    /// Windows follow each other, and one of them starts at `phase`.
    Aligned {
        /// Length of a window.
        length: Span,
        /// An instant at which a window starts.
        phase: Time,
    },
    /// The first request after the end of a window opens the next.
    FirstHit {
        /// Length of a window.
        length: Span,
    },
    /// Windows are days, weeks, months or years of a calendar.
    Calendar(Arc<dyn Calendar>),
}

impl Window {
    /// Creates windows of `length`, aligned to the Unix epoch.
    pub fn epoch(length: Span) -> Window {
        Window::Aligned { length, phase: Time::EPOCH }
    }

    /// Returns the end of the window of a first request at `now`.
    ///
    /// ```
    /// use tollgate_core::{Span, Time, Window};
    /// let window = Window::epoch(Span::from_secs(60));
    /// assert_eq!(window.end_after(Time::EPOCH + Span::from_secs(70)).as_nanos(), 120_000_000_000);
    /// ```
    pub fn end_after(&self, now: Time) -> Time {
        match self {
            Window::Aligned { length, phase } => {
                let (at, start) = (i128::from(now.as_nanos()), i128::from(phase.as_nanos()));
                let into = (at - start).rem_euclid(i128::from(length.as_nanos())) as u64;
                now + (*length - Span::from_nanos(into))
            }
            Window::FirstHit { length } => now + *length,
            Window::Calendar(calendar) => calendar.period_end(now),
        }
    }

    /// Returns the end of the window that is `n` windows after the one that ends at `end`.
    fn end_later(&self, end: Time, n: u64) -> Time {
        match self {
            Window::Aligned { length, .. } | Window::FirstHit { length } => end + length.times(n),
            Window::Calendar(_) if n > MAX_PERIODS => Time::MAX,
            Window::Calendar(calendar) => (0..n).fold(end, |end, _| calendar.period_end(end)),
        }
    }

    /// Returns how many windows have ended since `end`, including that one; at most `most`.
    fn ended_since(&self, end: Time, now: Time, most: u64) -> u64 {
        match self {
            Window::Aligned { length, .. } | Window::FirstHit { length } => {
                1 + now.since(end).as_nanos() / length.as_nanos()
            }
            Window::Calendar(calendar) => {
                let mut count = 1;
                let mut end = calendar.period_end(end);
                while end <= now && end < Time::MAX && count < most {
                    count += 1;
                    end = calendar.period_end(end);
                }
                count
            }
        }
    }
}

/// A limit of `limit` in each window.
///
/// ```
/// use tollgate_core::{Algorithm, FixedWindow, Retry, Span, Time, Window};
///
/// let window = FixedWindow::new(2, Window::epoch(Span::from_secs(60)))?;
/// let at = |s: u64| Time::from_nanos(s * 1_000_000_000);
/// let mut state = window.fresh(at(50));
/// assert!(window.decide(&mut state, at(50), 2).allowed);
/// assert_eq!(window.decide(&mut state, at(55), 1).retry, Retry::After(Span::from_secs(5)));
/// assert!(window.decide(&mut state, at(60), 1).allowed);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug)]
pub struct FixedWindow {
    limit: u64,
    window: Window,
    counts_denied: bool,
    across_windows: bool,
}

/// The amount spent in the current window, including what is borrowed from later ones.
///
/// ```
/// use tollgate_core::{Algorithm, FixedWindow, FixedWindowState, Span, Time, Window};
/// let window = FixedWindow::new(5, Window::epoch(Span::from_secs(60)))?;
/// let end = Time::EPOCH + Span::from_secs(60);
/// let state = FixedWindowState::from_parts(end, 3);
/// assert_eq!(window.peek(&state, Time::EPOCH).remaining, 2);
/// assert_eq!(window.peek(&state, end).remaining, 5);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FixedWindowState {
    end: Time,
    used: u64,
}

impl FixedWindowState {
    /// Creates the state of `used` spent in the window that ends at `end`.
    pub const fn from_parts(end: Time, used: u64) -> FixedWindowState {
        FixedWindowState { end, used }
    }

    /// Returns the end of the window, and the amount spent.
    pub const fn parts(self) -> (Time, u64) {
        (self.end, self.used)
    }
}

impl FixedWindow {
    /// Creates a limit of `limit` for each window.
    pub fn new(limit: u64, window: Window) -> Result<FixedWindow, InvalidLimit> {
        match limit {
            0 => return Err(InvalidLimit::ZeroAmount),
            _ if limit > MAX_AMOUNT => return Err(InvalidLimit::AmountTooLarge(limit)),
            _ => {}
        }
        if let Window::Aligned { length, .. } | Window::FirstHit { length } = &window {
            match *length {
                Span::ZERO => return Err(InvalidLimit::ZeroPeriod),
                length if length > MAX_FILL => return Err(InvalidLimit::PeriodTooLong),
                _ => {}
            }
        }
        Ok(FixedWindow { limit, window, counts_denied: false, across_windows: false })
    }

    /// Counts refused requests too.
    ///
    /// Every window then starts at zero: neither refusals nor overdrafts are carried into the next, and
    /// nothing can be reserved ahead.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, FixedWindow, Span, Time, Window};
    /// let window = FixedWindow::new(2, Window::epoch(Span::from_secs(60)))?.count_denied();
    /// let mut state = window.fresh(Time::EPOCH);
    /// window.decide(&mut state, Time::EPOCH, 1);
    /// assert!(!window.decide(&mut state, Time::EPOCH, 2).allowed); // but it is spent
    /// assert!(!window.decide(&mut state, Time::EPOCH, 1).allowed);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn count_denied(mut self) -> FixedWindow {
        self.counts_denied = true;
        self
    }

    /// Lets a reservation of more than the limit spread over several windows.
    pub fn reserve_across_windows(mut self) -> FixedWindow {
        self.across_windows = true;
        self
    }

    /// Returns the longest time until a key without debt is full again: one window.
    pub fn fill_time(&self) -> Span {
        match &self.window {
            Window::Aligned { length, .. } | Window::FirstHit { length } => *length,
            Window::Calendar(calendar) => calendar.longest(),
        }
    }

    /// Returns how the windows are aligned in time.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the state at `now`, after the windows that have ended reduced the debt.
    fn rolled(&self, state: &FixedWindowState, now: Time) -> FixedWindowState {
        if now < state.end && state.used > 0 {
            return *state;
        }
        if state.used > self.limit && !self.counts_denied {
            let most = state.used.min(self.most_used()).div_ceil(self.limit);
            let ended = self.window.ended_since(state.end, now, most);
            if ended < most {
                let used = state.used - ended * self.limit;
                return FixedWindowState { end: self.window.end_later(state.end, ended), used };
            }
        }
        FixedWindowState { end: self.window.end_after(now), used: 0 }
    }

    /// Returns the amount at which spending saturates.
    fn most_used(&self) -> u64 {
        match self.window {
            Window::Calendar(_) => self.limit.saturating_mul(MAX_PERIODS),
            _ => u64::MAX,
        }
    }

    /// Returns the end of the window in which the spent amount falls to `allowance`.
    fn paid_off(&self, state: &FixedWindowState, allowance: u64) -> Time {
        match state.used.saturating_sub(allowance) {
            0 => Time::EPOCH,
            _ if self.counts_denied => state.end,
            _ if state.used >= self.most_used() => Time::MAX, // Saturated: the amount is unknown.
            owed if owed <= self.limit => state.end,
            owed => self.window.end_later(state.end, (owed - 1) / self.limit),
        }
    }
}

impl Algorithm for FixedWindow {
    type State = FixedWindowState;

    fn fresh(&self, _now: Time) -> FixedWindowState {
        FixedWindowState::default()
    }

    #[inline]
    fn charge(&self, state: &mut FixedWindowState, now: Time, cost: i64) {
        *state = self.rolled(state, now);
        state.used = state.used.saturating_add_signed(cost).min(self.most_used());
    }

    #[inline]
    fn judge(&self, state: &FixedWindowState, now: Time) -> Judgement {
        let state = self.rolled(state, now);
        Judgement {
            overdrawn: self.paid_off(&state, self.limit).since(now),
            delay: Span::ZERO,
            remaining: self.limit.saturating_sub(state.used),
            reset_after: self.paid_off(&state, 0).since(now),
        }
    }

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: &FixedWindowState, now: Time) -> u64 {
        self.rolled(state, now).used
    }

    fn full_at(&self, state: &FixedWindowState) -> Time {
        self.paid_off(state, 0)
    }

    fn counts_denied(&self) -> bool {
        self.counts_denied
    }

    fn can_hold(&self, cost: u64) -> bool {
        cost <= if self.across_windows { MAX_AMOUNT } else { self.limit }
    }
}

#[cfg(test)]
mod tests;
