//! Time that moves only when told to.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tollgate_core::{Span, Time};

/// A clock for tests: it stands still until it is advanced, and wakes whoever waits for the
/// moment it reaches. Clones share one time.
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
pub struct ManualClock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    now: Time,
    sleepers: Vec<(Time, Waker)>,
    blocked: usize,
}

impl ManualClock {
    /// A clock that shows noon of 1 January 2026, UTC.
    pub fn new() -> ManualClock {
        ManualClock::at(Time::from_nanos(1_767_268_800_000_000_000))
    }

    /// A clock that shows `now`.
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

    /// What the clock shows.
    #[inline(never)]
    pub fn now(&self) -> Time {
        self.0.state.lock().now
    }

    /// Moves on by `by`, waking those whose time has come.
    pub fn advance(&self, by: Duration) {
        let to = self.now() + Span::from(by);
        self.set(to);
    }

    /// Jumps to `to`, also backwards: for testing what a step of the clock does.
    ///
    /// ```
    /// use tollgate::{Limiter, Span, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder().limit("1/s".parse()?).clock(&clock).build();
    /// limiter.check()?;
    /// clock.set(clock.now() - Span::from_secs(3_600));
    /// assert!(limiter.check().is_err()); // turning the clock back gives nothing back
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

    /// How many tasks and threads wait for this clock: lets a test advance only once its
    /// subject really waits.
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
        // One task may wait for several moments, but needs to be told of each only once.
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
