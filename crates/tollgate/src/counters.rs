//! The counters of a request, with or without a key, and waiting for them.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::{Span, Time, Verdict};

use crate::key::KeyBuf;
use crate::store::Action;
use crate::{Clock, Denied, KeyedLimiter, Limiter};

/// The counters of one request: all limits of a limiter, for one key if it is keyed.
pub(crate) trait Counters {
    /// Returns the clock of the limiter.
    fn clock(&self) -> &Clock;

    /// Runs `action` on all limits and returns the tightest of their verdicts.
    ///
    /// Only [`Action::Take`] can be denied.
    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied>;

    /// Runs an action that cannot be denied.
    fn adjust(&self, action: Action, cost: u64, lease: u64) -> Verdict {
        self.run(action, cost, lease).expect("only taking can be denied")
    }
}

/// Counters that outlive the call, for holds and permits.
#[derive(Clone, Debug)]
pub(crate) enum OwnedCounters {
    Direct(Limiter),
    Keyed(KeyedLimiter, KeyBuf),
}

impl Counters for OwnedCounters {
    fn clock(&self) -> &Clock {
        match self {
            OwnedCounters::Direct(limiter) => limiter.clock(),
            OwnedCounters::Keyed(limiter, _) => limiter.store().clock_ref(),
        }
    }

    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied> {
        match self {
            OwnedCounters::Direct(limiter) => limiter.run(action, cost, lease),
            OwnedCounters::Keyed(limiter, key) => {
                limiter.key_counters(key.as_key()).run(action, cost, lease)
            }
        }
    }
}

/// Returns a number that identifies a permit among all permits of a store.
///
/// Numbers are consecutive within a process and start at random, so that processes which share a
/// store do not use the same ones.
///
/// ```
/// use tollgate::state::new_lease;
/// assert_ne!(new_lease(), new_lease());
/// ```
pub fn new_lease() -> u64 {
    static NEXT: OnceLock<AtomicU64> = OnceLock::new();
    let next = NEXT.get_or_init(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
    next.fetch_add(1, Ordering::Relaxed)
}

/// A charged position in the queue, refunded on drop unless it was used.
///
/// A caller that stops waiting drops its future, and with it the position.
struct QueuePosition<'a, C: Counters> {
    counters: &'a C,
    cost: u64,
    lease: u64,
    used: bool,
}

impl<C: Counters> Drop for QueuePosition<'_, C> {
    fn drop(&mut self) {
        if !self.used {
            self.counters.adjust(Action::Refund, self.cost, self.lease);
        }
    }
}

/// The next step of a caller that is ready to wait.
enum WaitStep<'a, C: Counters> {
    /// Proceed at that time: the position in the queue is charged.
    ProceedAt(Time, QueuePosition<'a, C>),
    /// Retry at that time: this limit has no queue.
    RetryAt(Time),
}

/// Takes a queue position that is due by `deadline`, or refuses at once, charging nothing.
fn join_queue<C: Counters>(
    counters: &C,
    cost: u64,
    deadline: Time,
) -> Result<WaitStep<'_, C>, Denied> {
    let now = counters.clock().now();
    // A shaping limit delays requests. A wait of zero would accept any delay.
    let max_wait = deadline.since(now).max(Span::from_nanos(1));
    let lease = new_lease();
    match counters.run(Action::Take { max_wait }, cost, lease) {
        Ok(verdict) => {
            let position = QueuePosition { counters, cost, lease, used: false };
            Ok(WaitStep::ProceedAt(counters.clock().now() + verdict.wait, position))
        }
        Err(denied) => match denied.retry_after.map(Span::from) {
            Some(span) if span <= max_wait => Ok(WaitStep::RetryAt(now + span)),
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
        match join_queue(counters, cost, deadline)? {
            WaitStep::ProceedAt(time, mut position) => {
                counters.clock().sleep_until(time).await;
                position.used = true;
                return Ok(());
            }
            WaitStep::RetryAt(time) => counters.clock().sleep_until(time).await,
        }
    }
}

/// Blocks the thread until a request of `cost` may go on, or refuses at once if that is after
/// `deadline`.
pub(crate) fn blocking_wait(
    counters: &impl Counters,
    cost: u64,
    deadline: Time,
) -> Result<(), Denied> {
    loop {
        match join_queue(counters, cost, deadline)? {
            WaitStep::ProceedAt(time, mut position) => {
                counters.clock().block_until(time);
                position.used = true;
                return Ok(());
            }
            WaitStep::RetryAt(time) => counters.clock().block_until(time),
        }
    }
}
