//! When the next requests of a connection start, and when there are no more.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate::{Clock, Time};

use super::answer::Answer;

/// Timers of the runtime are good to a millisecond: the rest is waited for awake.
const AWAKE_NS: u64 = 2_000_000;

/// What all connections have in common.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clock: Clock,
    /// Nothing starts from here on.
    pub(super) until: Option<Time>,
    pub(super) start: Time,
    /// Between the starts of one connection's batches, in nanoseconds.
    pub(super) every_ns: Option<u64>,
    /// How many were answered, for those who watch.
    pub(super) answered: AtomicU64,
}

/// What became of requests.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
    pub(super) latency_ns: Histogram<u64>,
}

impl Tally {
    /// Up to a minute, to three digits.
    pub(super) fn new() -> Tally {
        let histogram = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
        let latency_ns = histogram.expect("bounds that fit");
        Tally { allowed: 0, denied: 0, failed: 0, latency_ns }
    }

    pub(super) fn count(&mut self, answer: Answer) {
        match answer {
            Answer::Allowed => self.allowed += 1,
            Answer::Denied => self.denied += 1,
            Answer::Failed => self.failed += 1,
        }
    }

    /// So many were answered so long after they were to start.
    pub(super) fn took(&mut self, ns: u64, answers: u64) {
        self.latency_ns.saturating_record_n(ns, answers);
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.failed += other.failed;
        // Both have the same bounds.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

/// One connection's share of the work.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    plan: &'a Plan,
    pub(super) tally: &'a RefCell<Tally>,
    /// Requests left; no end without a number.
    left: Option<u64>,
    next: Time,
    random: fastrand::Rng,
    keys: u32,
}

impl<'a> Turns<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        tally: &'a RefCell<Tally>,
        left: Option<u64>,
        number: u32,
        of: u32,
        keys: u32,
    ) -> Turns<'a> {
        // Connections take turns within an interval instead of starting all at once.
        let offset = plan.every_ns.unwrap_or_default() * u64::from(number) / u64::from(of.max(1));
        let next = plan.start + tollgate::Span::from_nanos(offset);
        Turns { plan, tally, left, next, random: fastrand::Rng::with_seed(number.into()), keys }
    }

    /// Waits until the next requests may start: up to `most` of them, and since when they count.
    pub(super) async fn next(&mut self, most: u64) -> Option<(u64, Time)> {
        let count = self.left.map_or(most, |left| left.min(most));
        if count == 0 {
            return None;
        }
        let clock = &self.plan.clock;
        let mut now = clock.now();
        let start = match self.plan.every_ns {
            None => now,
            Some(every) => {
                let start = self.next;
                while now < start {
                    let rest = start.since(now).as_nanos();
                    match rest.checked_sub(AWAKE_NS) {
                        Some(asleep) => tokio::time::sleep(Duration::from_nanos(asleep)).await,
                        None => tokio::task::yield_now().await,
                    }
                    now = clock.now();
                }
                self.next = start + tollgate::Span::from_nanos(every);
                start
            }
        };
        // What should have started in time counts, however late it is.
        if self.plan.until.is_some_and(|until| start >= until) {
            return None;
        }
        self.left = self.left.map(|left| left - count);
        Some((count, start))
    }

    pub(super) fn key(&mut self) -> u32 {
        self.random.u32(..self.keys)
    }

    /// So many requests that started together were answered just now.
    pub(super) fn answered(&self, count: u64, start: Time) {
        let took = self.plan.clock.now().since(start).as_nanos();
        self.tally.borrow_mut().took(took, count);
        self.plan.answered.fetch_add(count, Ordering::Relaxed);
    }
}
