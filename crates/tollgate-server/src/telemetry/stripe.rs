//! Striped counters. Most threads have a stripe of their own; readers sum over all stripes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate::Span;

use super::DoorName;
use super::descriptor_stats::HitCounters;
use super::gateway::GatewayCounters;
use super::heavy_hitters::HeavyHitters;
use super::series::MAX_SERIES;

/// The outcome of a decision, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecisionOutcome {
    Allowed,
    Denied,
    /// Refused by a rule in shadow mode; the request itself is counted under its own outcome.
    ShadowDenied,
    Banned,
    /// Allowed after a wait.
    Delayed,
    /// Refused because of its priority.
    Shed,
    /// Stored in the deferred queue.
    Deferred,
}

impl DecisionOutcome {
    pub(crate) const ALL: [DecisionOutcome; 7] = [
        DecisionOutcome::Allowed,
        DecisionOutcome::Denied,
        DecisionOutcome::ShadowDenied,
        DecisionOutcome::Banned,
        DecisionOutcome::Delayed,
        DecisionOutcome::Shed,
        DecisionOutcome::Deferred,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            DecisionOutcome::Allowed => "allowed",
            DecisionOutcome::Denied => "denied",
            DecisionOutcome::ShadowDenied => "shadow_denied",
            DecisionOutcome::Banned => "banned",
            DecisionOutcome::Delayed => "delayed",
            DecisionOutcome::Shed => "shed",
            DecisionOutcome::Deferred => "deferred",
        }
    }

    pub(crate) fn is_refusal(self) -> bool {
        matches!(
            self,
            DecisionOutcome::Denied
                | DecisionOutcome::Banned
                | DecisionOutcome::Shed
                | DecisionOutcome::Deferred
        )
    }
}

/// The counters of one or a few threads.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Stripe {
    decisions: Box<[AtomicU64]>,
    pub(super) took: [Histogram; DoorName::ALL.len()],
    pub(super) store: Histogram,
    pub(super) waits: Histogram,
    pub(super) gateway: GatewayCounters,
    pub(super) hits: HitCounters,
    pub(super) heavy_hitters: Mutex<HeavyHitters>,
}

impl Stripe {
    pub(super) fn new(top_keys: usize) -> Stripe {
        let zeros =
            || (0..MAX_SERIES * DecisionOutcome::ALL.len()).map(|_| AtomicU64::new(0)).collect();
        Stripe {
            decisions: zeros(),
            took: Default::default(),
            store: Histogram::default(),
            waits: Histogram::default(),
            gateway: GatewayCounters::default(),
            hits: HitCounters::default(),
            heavy_hitters: Mutex::new(HeavyHitters::new(top_keys)),
        }
    }

    #[inline]
    pub(super) fn count(&self, series: u32, outcome: DecisionOutcome) {
        self.counter(series, outcome).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counter(&self, series: u32, outcome: DecisionOutcome) -> &AtomicU64 {
        &self.decisions[series as usize * DecisionOutcome::ALL.len() + outcome as usize]
    }
}

/// Creates about two stripes per CPU core.
pub(super) fn stripes(top_keys: usize) -> Box<[Stripe]> {
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    let count = (2 * threads).next_power_of_two().min(32);
    (0..count).map(|_| Stripe::new(top_keys)).collect()
}

/// Returns the number of this thread. Threads that start one after the other get different stripes.
#[inline]
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// The exponent of the upper bound of the first bucket: 2^8 nanoseconds.
const SMALLEST_BITS: u32 = 8;
/// The number of buckets: 256 ns, 512 ns, and so on to half a minute, and one without a bound.
pub(super) const BUCKETS: usize = 28;

/// A histogram of durations.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// The sum of several histograms.
#[derive(Clone, Debug, Default)]
pub(super) struct HistogramTotals {
    pub(super) counts: [u64; BUCKETS],
    pub(super) sum_ns: u64,
}

impl Histogram {
    /// Records `times` operations that took `span` together.
    #[inline]
    pub(super) fn record(&self, times: u64, span: Span) {
        let ns = span.as_nanos();
        self.counts[bucket(ns / times.max(1))].fetch_add(times, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, times: &mut HistogramTotals) {
        for (sum, count) in times.counts.iter_mut().zip(&self.counts) {
            *sum += count.load(Ordering::Relaxed);
        }
        times.sum_ns = times.sum_ns.wrapping_add(self.sum_ns.load(Ordering::Relaxed));
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    let bits = u64::BITS - ns.saturating_sub(1).leading_zeros();
    (bits.saturating_sub(SMALLEST_BITS) as usize).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket in seconds; `None` for the last.
pub(super) fn bound(bucket: usize) -> Option<f64> {
    (bucket + 1 < BUCKETS).then(|| (1_u64 << (SMALLEST_BITS as usize + bucket)) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for ns in [0, 1, 255, 256, 257, 511, 512, 513, 1_000_000, u64::MAX] {
            let found = bucket(ns);
            assert!(bound(found).is_none_or(|bound| ns as f64 / 1e9 <= bound), "{ns}");
            let before = found.checked_sub(1).and_then(bound);
            assert!(before.is_none_or(|bound| ns as f64 / 1e9 > bound), "{ns}");
        }
    }
}
