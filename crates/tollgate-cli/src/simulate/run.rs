//! Events run against limits: a memory store whose clock shows what the trace says.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::bail;
use tollgate::testing::ManualClock;
use tollgate::{
    Action, Bucket, Call, Check, Engine, Limit, MemoryStore, Retry, Span, Store, Time, Verdict,
    Verdicts,
};

use super::event::{Event, Op};

/// Reserves that may be open on one key; of more, the oldest keep their charge for good.
const MAX_OPEN: usize = 1_024;

/// What one event was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    /// `None` if it was allowed, or never will be.
    pub(super) retry_after_us: Option<u64>,
    pub(super) reset_after_us: u64,
    pub(super) wait_us: u64,
    /// It asks for more than the limit can ever hold.
    pub(super) never: bool,
}

/// Limits, and where everybody stands with them.
#[derive(Debug)]
pub(super) struct Simulation {
    limits: Vec<Limit>,
    clock: ManualClock,
    store: MemoryStore,
    open: HashMap<String, VecDeque<Reserve>>,
    leases: u64,
}

/// A reserve not settled yet.
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

    /// Runs one event at the time it names.
    pub(super) fn step(&mut self, event: &Event) -> anyhow::Result<Answer> {
        let now = Time::EPOCH + Span::from_micros(event.at_us);
        self.clock.set(now);
        let (key, cost) = (event.key.as_str(), event.cost);
        let verdicts = match event.op {
            Op::Check => {
                let lease = self.new_lease();
                self.run(key, Action::Take { max_wait: Span::ZERO }, cost, lease)?
            }
            Op::Peek => self.run(key, Action::Peek, cost, 0)?,
            Op::Refund => self.run(key, Action::Refund, cost, 0)?,
            Op::Reserve => self.reserve(event, now)?,
            Op::Settle => self.settle(key, cost, now)?,
            Op::Reset => {
                self.open.remove(key);
                self.run(key, Action::Reset, cost, 0)?
            }
        };
        match tightest(&verdicts) {
            Some(verdict) => Ok(answer(&verdict)),
            None => bail!("no limit to run: give one with --limit"),
        }
    }

    fn reserve(&mut self, event: &Event, now: Time) -> anyhow::Result<Verdicts> {
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

    /// Charges the truth: what differs from the last open reserve, or all if there is none.
    fn settle(&mut self, key: &str, truth: u64, now: Time) -> anyhow::Result<Verdicts> {
        let reserve = self.open.get_mut(key).and_then(VecDeque::pop_back);
        if self.open.get(key).is_some_and(VecDeque::is_empty) {
            self.open.remove(key);
        }
        let Some(reserve) = reserve else { return self.run(key, Action::Spend, truth, 0) };
        // Whoever settles is done, which is what a limit on concurrency waits for.
        if self.limits.iter().any(counts_holders) {
            let done = Action::Release { rtt: now.since(reserve.since), dropped: false };
            self.run(key, done, 0, reserve.lease)?;
        }
        match truth >= reserve.cost {
            true => self.run(key, Action::Spend, truth - reserve.cost, 0),
            false => self.run(key, Action::Refund, reserve.cost - truth, 0),
        }
    }

    /// Names a holder, for limits on concurrency.
    fn new_lease(&mut self) -> u64 {
        self.leases += 1;
        self.leases
    }

    fn run(&self, key: &str, action: Action, cost: u64, lease: u64) -> anyhow::Result<Verdicts> {
        let check =
            |(bucket, limit)| Check { lease, ..Check::new(Bucket::new(bucket), key, limit, cost) };
        let checks: Vec<Check<'_>> = (0..).zip(&self.limits).map(check).collect();
        let future = pin!(self.store.run(Call { action, checks: &checks }));
        // The memory store never waits.
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(verdicts) => Ok(verdicts?),
            Poll::Pending => bail!("the memory store did not answer at once: please report this"),
        }
    }
}

fn counts_holders(limit: &Limit) -> bool {
    matches!(limit.engine(), Engine::Concurrent(_) | Engine::Adaptive(_))
}

/// Of several limits' verdicts the one to tell: who refuses longest, or else who has least left.
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
    // Whoever has to wait, waits for the slowest.
    let wait = verdicts.iter().map(|verdict| verdict.wait).max()?;
    Some(Verdict { wait, ..least })
}

fn answer(verdict: &Verdict) -> Answer {
    Answer {
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

    fn left(simulation: &mut Simulation, op: Op, cost: u64) -> u64 {
        let event = Event { at_us: 0, key: "a".into(), cost, op, max_wait_us: 0 };
        simulation.step(&event).unwrap().remaining
    }

    #[test]
    fn reserves_are_settled_last_first() {
        let mut simulation = Simulation::new(vec!["100/min".parse().unwrap()]);
        assert_eq!(left(&mut simulation, Op::Reserve, 10), 90);
        assert_eq!(left(&mut simulation, Op::Reserve, 30), 60);
        assert_eq!(left(&mut simulation, Op::Settle, 5), 85);
        assert_eq!(left(&mut simulation, Op::Settle, 20), 75);
        assert_eq!(left(&mut simulation, Op::Settle, 7), 68);
        assert!(simulation.open.is_empty());
    }

    #[test]
    fn settling_gives_a_place_back() {
        let mut simulation = Simulation::new(vec!["2 concurrent".parse().unwrap()]);
        assert_eq!(left(&mut simulation, Op::Reserve, 1), 1);
        assert_eq!(left(&mut simulation, Op::Check, 1), 0);
        assert_eq!(left(&mut simulation, Op::Settle, 1), 1);
    }

    #[test]
    fn open_reserves_are_bounded() {
        let mut simulation = Simulation::new(vec!["1M/min".parse().unwrap()]);
        for _ in 0..=MAX_OPEN {
            left(&mut simulation, Op::Reserve, 1);
        }
        assert_eq!(simulation.open["a"].len(), MAX_OPEN);
    }
}
