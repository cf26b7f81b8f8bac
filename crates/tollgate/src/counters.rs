//! What a request runs against, be the limiter keyed or not; and waiting, written once for both.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Span, Time, Verdict};

use crate::key::KeyBuf;
use crate::store::Action;
use crate::{Clock, Denied, KeyedLimiter, Limiter};

/// The counters of one request: all limits of a limiter, for one key if it is keyed.
pub(crate) trait Counters {
    fn clock(&self) -> &Clock;

    /// Runs `action` on all limits. The verdict is the tightest of theirs; only
    /// [`Action::Take`] can be denied.
    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied>;

    /// Spends what was spent, or gives back, without asking.
    fn adjust(&self, action: Action, cost: u64, lease: u64) -> Verdict {
        self.run(action, cost, lease).expect("only taking can be denied")
    }
}

/// Counters that outlive the call: what holds and permits keep.
#[derive(Clone, Debug)]
pub(crate) enum OwnedCounters {
    Direct(Limiter),
    Keyed(KeyedLimiter, KeyBuf),
}

impl Counters for OwnedCounters {
    fn clock(&self) -> &Clock {
        match self {
            OwnedCounters::Direct(limiter) => limiter.clock(),
            OwnedCounters::Keyed(limiter, _) => limiter.store().its_clock(),
        }
    }

    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied> {
        match self {
            OwnedCounters::Direct(limiter) => limiter.run(action, cost, lease),
            OwnedCounters::Keyed(limiter, key) => limiter.of(key.as_key()).run(action, cost, lease),
        }
    }
}

/// The output of a future that never waits, as those of the memory store.
#[cfg(feature = "rules")]
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

/// A number no other holder has: nodes that share a store start at random.
pub(crate) fn new_lease() -> u64 {
    static NEXT: OnceLock<AtomicU64> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
    next.fetch_add(1, Ordering::Relaxed)
}

/// Gives a place in line back unless it was kept: a caller may lose interest while waiting.
struct Place<'a, C: Counters> {
    counters: &'a C,
    cost: u64,
    lease: u64,
    kept: bool,
}

impl<C: Counters> Drop for Place<'_, C> {
    fn drop(&mut self) {
        if !self.kept {
            self.counters.adjust(Action::Refund, self.cost, self.lease);
        }
    }
}

/// What a caller that is ready to wait should do next.
enum Next<'a, C: Counters> {
    /// Go on at that time: its place in line is charged.
    GoAt(Time, Place<'a, C>),
    /// Ask again at that time: this limit has no line to stand in.
    AskAt(Time),
}

/// Finds a place in line that is due by `deadline`, or refuses at once, charging nothing.
fn line_up<C: Counters>(counters: &C, cost: u64, deadline: Time) -> Result<Next<'_, C>, Denied> {
    let now = counters.clock().now();
    // Even a caller with no time to wait is not to be held back for longer than that.
    let max_wait = deadline.since(now).max(Span::from_nanos(1));
    let lease = new_lease();
    match counters.run(Action::Take { max_wait }, cost, lease) {
        Ok(verdict) => {
            let place = Place { counters, cost, lease, kept: false };
            Ok(Next::GoAt(counters.clock().now() + verdict.wait, place))
        }
        Err(denied) => match denied.retry_after.map(Span::from) {
            Some(span) if span <= max_wait => Ok(Next::AskAt(now + span)),
            _ => Err(denied),
        },
    }
}

/// Waits until a request of `cost` may go on, or refuses at once if that is after `deadline`.
pub(crate) async fn wait(
    counters: &impl Counters,
    cost: u64,
    deadline: Time,
) -> Result<(), Denied> {
    loop {
        match line_up(counters, cost, deadline)? {
            Next::GoAt(time, mut place) => {
                counters.clock().sleep_until(time).await;
                place.kept = true;
                return Ok(());
            }
            Next::AskAt(time) => counters.clock().sleep_until(time).await,
        }
    }
}

/// The same, blocking this thread.
pub(crate) fn blocking_wait(
    counters: &impl Counters,
    cost: u64,
    deadline: Time,
) -> Result<(), Denied> {
    loop {
        match line_up(counters, cost, deadline)? {
            Next::GoAt(time, mut place) => {
                counters.clock().block_until(time);
                place.kept = true;
                return Ok(());
            }
            Next::AskAt(time) => counters.clock().block_until(time),
        }
    }
}
