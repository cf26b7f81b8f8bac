//! The clock: the only module that reads the time.
//!
//! A clock starts from the wall clock and moves on by a monotonic counter, so a step of the
//! system clock changes no decision. Dates (calendar windows, schedules, the ends of bans) follow the
//! wall clock instead, by [`Clock::date`]. The counters of cores may differ by some nanoseconds. The time of
//! a state never moves backwards, so a caller loses at most those nanoseconds. Tests drive a [manual](crate::testing::ManualClock) clock instead.
#![allow(clippy::disallowed_methods, reason = "this module owns time: other modules use it")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_core::{Span, Time};

use crate::testing::ManualClock;

/// A source of time, to read and to wait for.
///
/// ```
/// use tollgate::{Clock, testing::ManualClock};
/// let manual = ManualClock::new();
/// let clock = Clock::from(&manual);
/// let before = clock.now();
/// manual.advance(std::time::Duration::from_secs(1));
/// assert_eq!(clock.now().since(before).as_nanos(), 1_000_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug)]
enum ClockSource {
    System(Arc<SystemClock>),
    #[cfg(target_os = "linux")]
    Coarse(Arc<CoarseClock>),
    Manual(ManualClock),
}

#[derive(Debug)]
struct SystemClock {
    counter: quanta::Clock,
    /// The counter when the clock was created.
    start: u64,
    /// The wall clock when the clock was created.
    start_ns: u64,
    wall: WallOffset,
}

/// How far the wall clock is ahead of a clock, read again at intervals.
#[derive(Debug, Default)]
struct WallOffset {
    ahead_ns: AtomicI64,
    /// The time at which the wall clock is read again, in nanoseconds.
    read_again_at: AtomicU64,
}

/// The interval at which the wall clock is read, where dates are needed.
const READ_INTERVAL: Span = Span::from_millis(100);

impl WallOffset {
    #[inline]
    fn at(&self, now: Time) -> i64 {
        if now.as_nanos() >= self.read_again_at.load(Ordering::Relaxed) {
            self.read(now);
        }
        self.ahead_ns.load(Ordering::Relaxed)
    }

    /// Reads the wall clock. Threads that do so at the same time store the same offset, but for what
    /// passed between their reading of the two clocks.
    #[cold]
    #[inline(never)]
    fn read(&self, now: Time) {
        let ahead = i128::from(wall_ns()) - i128::from(now.as_nanos());
        let ahead = ahead.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
        let before = self.ahead_ns.load(Ordering::Relaxed);
        // Less is the time between the readings of the two clocks, and no step.
        if ahead.abs_diff(before) > MIN_STEP.as_nanos() {
            self.ahead_ns.store(ahead, Ordering::Relaxed);
        }
        self.read_again_at.store((now + READ_INTERVAL).as_nanos(), Ordering::Relaxed);
    }
}

/// The least difference that counts as a step of the wall clock.
const MIN_STEP: Span = Span::from_millis(10);

/// A clock that reads the time of the kernel's last tick.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct CoarseClock {
    start: u64,
    start_ns: u64,
    wall: WallOffset,
}

#[cfg(target_os = "linux")]
impl CoarseClock {
    #[inline(never)]
    fn now(&self) -> Time {
        let since = CoarseClock::read().saturating_sub(self.start);
        Time::from_nanos(self.start_ns) + Span::from_nanos(since)
    }

    fn read() -> u64 {
        let tick = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
    }
}

/// Returns the time of the wall clock, in nanoseconds since 1970.
fn wall_ns() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Span::from(wall).as_nanos()
}

impl Clock {
    /// Creates a precise clock of this machine: monotonic, starting from its wall clock.
    ///
    /// ```
    /// use tollgate::Clock;
    /// let clock = Clock::system();
    /// let before = clock.now();
    /// assert!(clock.now() >= before);
    /// ```
    pub fn system() -> Clock {
        let counter = quanta::Clock::new();
        let start = counter.raw();
        let wall = WallOffset::default();
        Clock(ClockSource::System(Arc::new(SystemClock {
            counter,
            start,
            start_ns: wall_ns(),
            wall,
        })))
    }

    /// Creates a clock that reads the kernel's last tick, which is 1 to 10 ms old.
    ///
    /// This is the fastest clock on Linux; other systems get [`Clock::system`].
    ///
    /// Most processors finish all pending loads before they read a precise clock, so the cache
    /// misses of successive decisions cannot overlap. This clock avoids that. In return, tokens
    /// come back up to a tick late, and an interval of `t` may admit `burst + rate * (t + tick)`.
    ///
    /// ```
    /// use tollgate::{Clock, Limit, Limiter};
    /// let limiter =
    ///     Limiter::builder().limit("1k/min".parse::<Limit>()?).clock(Clock::coarse()).build_keyed();
    /// assert!(limiter.check("ann").is_ok());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn coarse() -> Clock {
        #[cfg(target_os = "linux")]
        return Clock(ClockSource::Coarse(Arc::new(CoarseClock {
            start: CoarseClock::read(),
            start_ns: wall_ns(),
            wall: WallOffset::default(),
        })));
        #[cfg(not(target_os = "linux"))]
        Clock::system()
    }

    /// Returns the current time.
    #[inline(always)]
    pub fn now(&self) -> Time {
        match &self.0 {
            ClockSource::System(system) => {
                let since = system.counter.delta_as_nanos(system.start, system.counter.raw());
                Time::from_nanos(system.start_ns) + Span::from_nanos(since)
            }
            #[cfg(target_os = "linux")]
            ClockSource::Coarse(coarse) => coarse.now(),
            ClockSource::Manual(manual) => manual.now(),
        }
    }

    /// Returns the date: the time of the wall clock, at the time `now` of this clock.
    ///
    /// The wall clock may be set while the process runs, forward or back, and it goes on while the
    /// machine is suspended. Decisions use [`now`](Clock::now), and dates this. The wall clock is read
    /// every 100 ms at most.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Span, testing::ManualClock};
    /// let manual = ManualClock::new();
    /// let clock = Clock::from(&manual);
    /// assert_eq!(clock.date(clock.now()), clock.now());
    /// manual.step_wall(Duration::from_secs(7_200)); // the machine was two hours behind
    /// assert_eq!(clock.date(clock.now()), clock.now() + Span::from_secs(7_200));
    /// ```
    #[inline]
    pub fn date(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_add_signed(self.ahead(now)))
    }

    /// Returns the time of this clock that has the date `date`, as the wall clock is now.
    pub fn time_of(&self, date: Time) -> Time {
        let ahead = self.ahead(self.now());
        Time::from_nanos(date.as_nanos().saturating_add_signed(ahead.saturating_neg()))
    }

    /// Returns by how many nanoseconds the wall clock is ahead of this clock.
    #[inline]
    pub(crate) fn ahead(&self, now: Time) -> i64 {
        match &self.0 {
            ClockSource::System(system) => system.wall.at(now),
            #[cfg(target_os = "linux")]
            ClockSource::Coarse(coarse) => coarse.wall.at(now),
            ClockSource::Manual(manual) => manual.wall_ahead(),
        }
    }

    /// Returns the time of the wall clock at this moment.
    pub(crate) fn wall(&self) -> Time {
        match &self.0 {
            ClockSource::Manual(manual) => self.date(manual.now()),
            _ => Time::from_nanos(wall_ns()),
        }
    }

    /// Returns a clock of the same kind that reads `time` now. A manual clock is set to `time`.
    pub(crate) fn resumed_at(&self, time: Time) -> Clock {
        let start_ns = time.as_nanos();
        Clock(match &self.0 {
            ClockSource::System(system) => {
                let counter = system.counter.clone();
                let start = counter.raw();
                ClockSource::System(Arc::new(SystemClock {
                    counter,
                    start,
                    start_ns,
                    wall: WallOffset::default(),
                }))
            }
            #[cfg(target_os = "linux")]
            ClockSource::Coarse(_) => ClockSource::Coarse(Arc::new(CoarseClock {
                start: CoarseClock::read(),
                start_ns,
                wall: WallOffset::default(),
            })),
            ClockSource::Manual(manual) => {
                manual.set(time);
                ClockSource::Manual(manual.clone())
            }
        })
    }

    /// Returns a future that completes at `deadline`, on any executor.
    ///
    /// ```
    /// use tollgate::{Clock, testing::ManualClock};
    /// let manual = ManualClock::new();
    /// let clock = Clock::from(&manual);
    /// let sleep = clock.sleep_until(clock.now()); // the deadline has passed
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// assert!(std::pin::pin!(sleep).poll(&mut context).is_ready());
    /// ```
    pub fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep { clock: self.clone(), deadline, timer: None }
    }

    /// Blocks this thread until `deadline`.
    pub(crate) fn block_until(&self, deadline: Time) {
        if let ClockSource::Manual(manual) = &self.0 {
            return manual.block_until(deadline);
        }
        loop {
            match deadline.since(self.now()) {
                Span::ZERO => return,
                left => std::thread::sleep(left.into()),
            }
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

impl From<&ManualClock> for Clock {
    fn from(manual: &ManualClock) -> Clock {
        Clock(ClockSource::Manual(manual.clone()))
    }
}

/// A future that completes at a deadline, created by [`Clock::sleep_until`].
///
/// The future runs on any executor. With a [`ManualClock`] it completes when the clock is advanced.
#[must_use = "a future does nothing until it is polled"]
#[derive(Debug)]
pub struct Sleep {
    clock: Clock,
    deadline: Time,
    timer: Option<futures_timer::Delay>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let left = self.deadline.since(self.clock.now());
            if left.is_zero() {
                return Poll::Ready(());
            }
            if let ClockSource::Manual(manual) = &self.clock.0 {
                return manual.poll_until(self.deadline, context.waker());
            }
            let timer =
                self.timer.get_or_insert_with(|| futures_timer::Delay::new(Duration::from(left)));
            match Pin::new(timer).poll(context) {
                Poll::Ready(()) => self.timer = None,
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
