//! A clock that stands still until it is advanced.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tollgate_core::{Span, Time};

/// A clock for tests that stands still until it is advanced.
///
/// Advancing it wakes the tasks and threads that wait for a moment it reaches. Clones share
/// their time.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, testing::ManualClock};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder().limit("1/s".parse()?).clock(&clock).build();
/// assert!(limiter.check().is_ok());
/// assert!(limiter.check().is_err());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check().is_ok());
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<SharedTime>);

/// The time that all clones of a clock share.
#[derive(Debug, Default)]
struct SharedTime {
    state: Mutex<TimeState>,
    moved: Condvar,
    /// How far the wall clock is ahead, in nanoseconds.
    wall_ahead: AtomicI64,
}

/// The current time, the tasks that wait for a later one, and the number of blocked threads.
#[derive(Debug, Default)]
struct TimeState {
    now: Time,
    sleepers: Vec<(Time, Waker)>,
    blocked: usize,
}

impl ManualClock {
    /// Creates a clock at noon of 1 January 2026, UTC.
    pub fn new() -> ManualClock {
        ManualClock::at(Time::from_nanos(1_767_268_800_000_000_000))
    }

    /// Creates a clock at `now`.
    ///
    /// ```
    /// use tollgate::{Time, testing::ManualClock};
    /// let clock = ManualClock::at(Time::from_nanos(1_000));
    /// assert_eq!(clock.now().as_nanos(), 1_000);
    /// ```
    pub fn at(now: Time) -> ManualClock {
        let clock = ManualClock::default();
        clock.set(now);
        clock
    }

    /// Returns the current time of the clock.
    #[inline(never)]
    pub fn now(&self) -> Time {
        self.0.state.lock().now
    }

    /// Advances the clock by `by` and wakes the waiters that are due.
    pub fn advance(&self, by: Duration) {
        let to = self.now() + Span::from(by);
        self.set(to);
    }

    /// Sets the clock to `to`, which may be earlier, to test clock steps.
    ///
    /// ```
    /// use tollgate::{Limiter, Span, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder().limit("1/s".parse()?).clock(&clock).build();
    /// limiter.check()?;
    /// clock.set(clock.now() - Span::from_secs(3_600));
    /// assert!(limiter.check().is_err()); // turning the clock back refills nothing
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(&self, to: Time) {
        let mut state = self.0.state.lock();
        state.now = to;
        let (due, later) = state.sleepers.drain(..).partition(|(at, _)| *at <= to);
        state.sleepers = later;
        drop(state);
        self.0.moved.notify_all();
        let due: Vec<(Time, Waker)> = due;
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Moves the wall clock ahead of this clock: a step forward, or the end of a suspended time.
    ///
    /// The time of this clock stays. See [`Clock::date`](crate::Clock::date).
    pub fn step_wall(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.0.wall_ahead.fetch_add(by, Ordering::Relaxed);
    }

    /// Moves the wall clock back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Span, testing::ManualClock};
    /// let manual = ManualClock::new();
    /// manual.step_wall_back(Duration::from_secs(60));
    /// let date = Clock::from(&manual).date(manual.now());
    /// assert_eq!(date, manual.now() - Span::from_secs(60));
    /// ```
    pub fn step_wall_back(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.0.wall_ahead.fetch_sub(by, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn wall_ahead(&self) -> i64 {
        self.0.wall_ahead.load(Ordering::Relaxed)
    }

    /// Returns the number of tasks and threads that wait for this clock.
    ///
    /// A test can use it to advance the clock only when the code under test waits.
    ///
    /// ```
    /// use std::{thread, time::Duration};
    /// use tollgate::{Limiter, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder().limit("1/s".parse()?).clock(&clock).build();
    /// limiter.check()?;
    /// thread::scope(|scope| {
    ///     scope.spawn(|| limiter.blocking_wait());
    ///     while clock.waiting() == 0 {
    ///         thread::yield_now();
    ///     }
    ///     clock.advance(Duration::from_secs(1));
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn waiting(&self) -> usize {
        let state = self.0.state.lock();
        state.sleepers.len() + state.blocked
    }

    pub(crate) fn poll_until(&self, deadline: Time, waker: &Waker) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.now >= deadline {
            return Poll::Ready(());
        }
        // One task may wait for several moments, but needs only one waker for each.
        state.sleepers.retain(|(at, other)| *at != deadline || !other.will_wake(waker));
        state.sleepers.push((deadline, waker.clone()));
        Poll::Pending
    }

    pub(crate) fn block_until(&self, deadline: Time) {
        let mut state = self.0.state.lock();
        state.blocked += 1;
        while state.now < deadline {
            self.0.moved.wait(&mut state);
        }
        state.blocked -= 1;
    }
}
