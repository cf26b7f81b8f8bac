//! The simulation of limits: a memory store whose clock follows the trace.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::bail;
use tollgate::testing::ManualClock;
use tollgate::{
    Action, Check, CounterId, Limit, LimitAlgorithm, MemoryStore, Retry, Span, Store, StoreCall,
    Time, Verdict, Verdicts,
};

use super::trace_event::{TraceEvent, TraceOperation};

/// The maximum number of open reserves of a key; beyond it the oldest stays charged.
const MAX_OPEN: usize = 1_024;

/// The verdict on one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventVerdict {
    pub(super) allowed: bool,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// The time to a retry; `None` if it is allowed or can never pass.
    pub(super) retry_after_us: Option<u64>,
    pub(super) reset_after_us: u64,
    pub(super) wait_us: u64,
    /// Whether the cost exceeds the whole limit.
    pub(super) never: bool,
}

/// Limits and their counters.
#[derive(Debug)]
pub(super) struct Simulation {
    limits: Vec<Limit>,
    clock: ManualClock,
    store: MemoryStore,
    open: HashMap<String, VecDeque<Reserve>>,
    leases: u64,
}

/// A reserve that is not settled yet.
#[derive(Clone, Copy, Debug)]
struct Reserve {
    cost: u64,
    lease: u64,
    since: Time,
}

impl Simulation {
    pub(super) fn new(limits: Vec<Limit>) -> Simulation {
        let clock = ManualClock::at(Time::EPOCH);
        let store = MemoryStore::new().clock(&clock);
        Simulation { limits, clock, store, open: HashMap::new(), leases: 0 }
    }

    /// Runs one event at its time.
    pub(super) fn step(&mut self, event: &TraceEvent) -> anyhow::Result<EventVerdict> {
        let now = Time::EPOCH + Span::from_micros(event.at_us);
        self.clock.set(now);
        let (key, cost) = (event.key.as_str(), event.cost);
        let verdicts = match event.op {
            TraceOperation::Check => {
                let lease = self.new_lease();
                self.run(key, Action::Take { max_wait: Span::ZERO }, cost, lease)?
            }
            TraceOperation::Peek => self.run(key, Action::Peek, cost, 0)?,
            TraceOperation::Refund => self.run(key, Action::Refund, cost, 0)?,
            TraceOperation::Reserve => self.reserve(event, now)?,
            TraceOperation::Settle => self.settle(key, cost, now)?,
            TraceOperation::Reset => {
                self.open.remove(key);
                self.run(key, Action::Reset, cost, 0)?
            }
        };
        match tightest(&verdicts) {
            Some(verdict) => Ok(event_verdict(&verdict)),
            None => bail!("no limit to run: give one with --limit"),
        }
    }

    fn reserve(&mut self, event: &TraceEvent, now: Time) -> anyhow::Result<Verdicts> {
        let (cost, lease) = (event.cost, self.new_lease());
        let max_wait = Span::from_micros(event.max_wait_us);
        let verdicts = self.run(&event.key, Action::Take { max_wait }, cost, lease)?;
        if verdicts.iter().all(|verdict| verdict.allowed) {
            let open = self.open.entry(event.key.clone()).or_default();
            if open.len() == MAX_OPEN {
                open.pop_front();
            }
            open.push_back(Reserve { cost, lease, since: now });
        }
        Ok(verdicts)
    }

    /// Charges the difference between the actual cost and the last open reserve, or the whole cost.
    fn settle(&mut self, key: &str, actual: u64, now: Time) -> anyhow::Result<Verdicts> {
        let reserve = self.open.get_mut(key).and_then(VecDeque::pop_back);
        if self.open.get(key).is_some_and(VecDeque::is_empty) {
            self.open.remove(key);
        }
        let Some(reserve) = reserve else { return self.run(key, Action::Spend, actual, 0) };
        // A settled request has ended, so it releases its permits.
        if self.limits.iter().any(is_concurrency) {
            let done = Action::Release { rtt: now.since(reserve.since), dropped: false };
            self.run(key, done, 0, reserve.lease)?;
        }
        match actual >= reserve.cost {
            true => self.run(key, Action::Spend, actual - reserve.cost, 0),
            false => self.run(key, Action::Refund, reserve.cost - actual, 0),
        }
    }

    /// Returns a new lease, for concurrency limits.
    fn new_lease(&mut self) -> u64 {
        self.leases += 1;
        self.leases
    }

    fn run(&self, key: &str, action: Action, cost: u64, lease: u64) -> anyhow::Result<Verdicts> {
        let check = |(number, limit)| Check {
            lease,
            ..Check::new(CounterId::new(number), key, limit, cost)
        };
        let checks: Vec<Check<'_>> = (0..).zip(&self.limits).map(check).collect();
        let future = pin!(self.store.run(StoreCall { action, checks: &checks }));
        // The memory store is always ready at once.
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(verdicts) => Ok(verdicts?),
            Poll::Pending => bail!(
                "the memory store was not ready at once: this is a bug of tollgate, please report it"
            ),
        }
    }
}

fn is_concurrency(limit: &Limit) -> bool {
    matches!(limit.algorithm(), LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_))
}

/// Returns the tightest verdict: the longest refusal, or else the least remaining.
fn tightest(verdicts: &[Verdict]) -> Option<Verdict> {
    let rank = |verdict: &&Verdict| match verdict.retry {
        Retry::Now => 0,
        Retry::After(span) => span.as_nanos(),
        Retry::Never => u64::MAX,
    };
    let denied = verdicts.iter().filter(|verdict| !verdict.allowed);
    if let Some(refusal) = denied.max_by_key(rank) {
        return Some(*refusal);
    }
    let least = *verdicts.iter().min_by_key(|verdict| verdict.remaining)?;
    // The wait is that of the slowest limit.
    let wait = verdicts.iter().map(|verdict| verdict.wait).max()?;
    Some(Verdict { wait, ..least })
}

fn event_verdict(verdict: &Verdict) -> EventVerdict {
    EventVerdict {
        allowed: verdict.allowed,
        limit: verdict.limit,
        remaining: verdict.remaining,
        retry_after_us: verdict.retry_after().map(Span::as_micros_ceil),
        reset_after_us: verdict.reset_after.as_micros_ceil(),
        wait_us: verdict.wait.as_micros_ceil(),
        never: verdict.retry == Retry::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(simulation: &mut Simulation, op: TraceOperation, cost: u64) -> u64 {
        let event = TraceEvent { at_us: 0, key: "a".into(), cost, op, max_wait_us: 0 };
        simulation.step(&event).unwrap().remaining
    }

    #[test]
    fn reserves_are_settled_last_first() {
        let mut simulation = Simulation::new(vec!["100/min".parse().unwrap()]);
        assert_eq!(left(&mut simulation, TraceOperation::Reserve, 10), 90);
        assert_eq!(left(&mut simulation, TraceOperation::Reserve, 30), 60);
        assert_eq!(left(&mut simulation, TraceOperation::Settle, 5), 85);
        assert_eq!(left(&mut simulation, TraceOperation::Settle, 20), 75);
        assert_eq!(left(&mut simulation, TraceOperation::Settle, 7), 68);
        assert!(simulation.open.is_empty());
    }

    #[test]
    fn settling_releases_a_permit() {
        let mut simulation = Simulation::new(vec!["2 concurrent".parse().unwrap()]);
        assert_eq!(left(&mut simulation, TraceOperation::Reserve, 1), 1);
        assert_eq!(left(&mut simulation, TraceOperation::Check, 1), 0);
        assert_eq!(left(&mut simulation, TraceOperation::Settle, 1), 1);
    }

    #[test]
    fn open_reserves_are_bounded() {
        let mut simulation = Simulation::new(vec!["1M/min".parse().unwrap()]);
        for _ in 0..=MAX_OPEN {
            left(&mut simulation, TraceOperation::Reserve, 1);
        }
        assert_eq!(simulation.open["a"].len(), MAX_OPEN);
    }
}
