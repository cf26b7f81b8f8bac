//! The one place that reads time.
//!
//! A clock starts from the wall clock and moves on by a monotonic counter, so a step of the
//! system clock changes no decision. Cores may disagree by some nanoseconds; a state is never
//! older than what was last charged to it, so that costs at most those nanoseconds, in the
//! caller's disfavour. Tests drive a [manual](crate::testing::ManualClock) clock instead.
#![allow(clippy::disallowed_methods, reason = "this module owns time: everything else asks it")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_core::{Span, Time};

use crate::testing::ManualClock;

/// Tells the time and waits for it.
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
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Arc<System>),
    #[cfg(target_os = "linux")]
    Coarse(Arc<Coarse>),
    Manual(ManualClock),
}

#[derive(Debug)]
struct System {
    counter: quanta::Clock,
    /// The counter when the clock was made, and what the wall clock said then.
    start: u64,
    start_ns: u64,
}

/// The kernel's time of its last tick.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Coarse {
    start: u64,
    start_ns: u64,
}

#[cfg(target_os = "linux")]
impl Coarse {
    #[inline(never)]
    fn now(&self) -> Time {
        let since = Coarse::read().saturating_sub(self.start);
        Time::from_nanos(self.start_ns) + Span::from_nanos(since)
    }

    fn read() -> u64 {
        let tick = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        tick.tv_sec as u64 * 1_000_000_000 + tick.tv_nsec as u64
    }
}

/// What the wall clock says.
fn wall_ns() -> u64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Span::from(wall).as_nanos()
}

impl Clock {
    /// The time of this machine: monotonic, starting from its wall clock.
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
        Clock(Source::System(Arc::new(System { counter, start, start_ns: wall_ns() })))
    }

    /// The same, read from the kernel's last tick (1 to 10 ms ago): on Linux the quickest clock
    /// there is, elsewhere [`Clock::system`].
    ///
    /// Reading a precise clock makes most processors finish what is under way first, so that
    /// waiting for memory cannot overlap from one decision to the next. This one does not. The
    /// price: what comes back does so up to a tick late, and an interval of `t` may admit
    /// `burst + rate * (t + tick)`.
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
        return Clock(Source::Coarse(Arc::new(Coarse {
            start: Coarse::read(),
            start_ns: wall_ns(),
        })));
        #[cfg(not(target_os = "linux"))]
        Clock::system()
    }

    /// What time it is.
    #[inline(always)]
    pub fn now(&self) -> Time {
        match &self.0 {
            Source::System(system) => {
                let since = system.counter.delta_as_nanos(system.start, system.counter.raw());
                Time::from_nanos(system.start_ns) + Span::from_nanos(since)
            }
            #[cfg(target_os = "linux")]
            Source::Coarse(coarse) => coarse.now(),
            Source::Manual(manual) => manual.now(),
        }
    }

    /// Completes at `deadline`.
    pub(crate) fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep { clock: self.clone(), deadline, timer: None }
    }

    /// Blocks this thread until `deadline`.
    pub(crate) fn block_until(&self, deadline: Time) {
        if let Source::Manual(manual) = &self.0 {
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
        Clock(Source::Manual(manual.clone()))
    }
}

/// A future that completes at a deadline of its clock. Runs on any executor.
#[derive(Debug)]
pub(crate) struct Sleep {
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
            if let Source::Manual(manual) = &self.clock.0 {
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
