//! The start times of requests, and the tally of their outcomes.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate::{Clock, Time};

use super::response::BenchOutcome;

/// The time before a start that is spent spinning, since timers are exact to a millisecond only.
const SPIN_NS: u64 = 2_000_000;

/// The schedule of all connections.
#[derive(Debug)]
pub(super) struct BenchSchedule {
    pub(super) clock: Clock,
    /// The end: no request starts after it.
    pub(super) until: Option<Time>,
    pub(super) start: Time,
    /// The interval between two batches of a connection in nanoseconds.
    pub(super) every_ns: Option<u64>,
    /// The number of responses, for the progress bar.
    pub(super) answered: AtomicU64,
}

/// The outcomes and latencies of requests.
#[derive(Clone, Debug)]
pub(super) struct BenchTally {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) failed: u64,
    pub(super) latency_ns: Histogram<u64>,
}

impl BenchTally {
    /// Returns an empty tally, with latencies up to a minute at three digits.
    pub(super) fn new() -> BenchTally {
        let histogram = Histogram::new_with_bounds(1_000, 60_000_000_000, 3);
        let latency_ns = histogram.expect("bounds that fit");
        BenchTally { allowed: 0, denied: 0, failed: 0, latency_ns }
    }

    pub(super) fn count(&mut self, outcome: BenchOutcome) {
        match outcome {
            BenchOutcome::Allowed => self.allowed += 1,
            BenchOutcome::Denied => self.denied += 1,
            BenchOutcome::Failed => self.failed += 1,
        }
    }

    /// Records the latency of several responses.
    pub(super) fn record_latency(&mut self, ns: u64, responses: u64) {
        self.latency_ns.saturating_record_n(ns, responses);
    }

    pub(super) fn add(&mut self, other: &BenchTally) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.failed += other.failed;
        // Both histograms have the same bounds, so this cannot fail.
        let _ = self.latency_ns.add(&other.latency_ns);
    }
}

/// The schedule of one connection.
#[derive(Debug)]
pub(super) struct ConnectionSchedule<'a> {
    plan: &'a BenchSchedule,
    pub(super) tally: &'a RefCell<BenchTally>,
    /// The number of requests left, if it is limited.
    left: Option<u64>,
    next: Time,
    random: fastrand::Rng,
    keys: u32,
}

impl<'a> ConnectionSchedule<'a> {
    pub(super) fn new(
        plan: &'a BenchSchedule,
        tally: &'a RefCell<BenchTally>,
        left: Option<u64>,
        number: u32,
        of: u32,
        keys: u32,
    ) -> ConnectionSchedule<'a> {
        // Connections start spread over an interval instead of all at once.
        let offset = plan.every_ns.unwrap_or_default() * u64::from(number) / u64::from(of.max(1));
        let next = plan.start + tollgate::Span::from_nanos(offset);
        ConnectionSchedule {
            plan,
            tally,
            left,
            next,
            random: fastrand::Rng::with_seed(number.into()),
            keys,
        }
    }

    /// Waits for the next start, and returns the number of requests, at most `max`, and their start.
    pub(super) async fn next(&mut self, max: u64) -> Option<(u64, Time)> {
        let count = self.left.map_or(max, |left| left.min(max));
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
                    let remaining = start.since(now).as_nanos();
                    match remaining.checked_sub(SPIN_NS) {
                        Some(sleep) => tokio::time::sleep(Duration::from_nanos(sleep)).await,
                        None => tokio::task::yield_now().await,
                    }
                    now = clock.now();
                }
                self.next = start + tollgate::Span::from_nanos(every);
                start
            }
        };
        // Requests that were scheduled before the end are sent, however late.
        if self.plan.until.is_some_and(|until| start >= until) {
            return None;
        }
        self.left = self.left.map(|left| left - count);
        Some((count, start))
    }

    pub(super) fn key(&mut self) -> u32 {
        self.random.u32(..self.keys)
    }

    /// Records the responses of requests that started together.
    pub(super) fn answered(&self, count: u64, start: Time) {
        let latency = self.plan.clock.now().since(start).as_nanos();
        self.tally.borrow_mut().record_latency(latency, count);
        self.plan.answered.fetch_add(count, Ordering::Relaxed);
    }
}
