//! Counters that threads do not share. Each thread counts in a stripe of its own, most often; who
//! reads adds them up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate::Span;

use super::DoorName;
use super::noisy::Noisy;
use super::passed::Passed;
use super::series::MOST;

/// How a decision ended, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    /// Allowed, though a rule in shadow mode would have refused it.
    ShadowDenied,
    Banned,
    /// Allowed after a while.
    Delayed,
    /// Refused by its priority.
    Shed,
    /// Kept for later.
    Deferred,
}

impl Outcome {
    pub(crate) const ALL: [Outcome; 7] = [
        Outcome::Allowed,
        Outcome::Denied,
        Outcome::ShadowDenied,
        Outcome::Banned,
        Outcome::Delayed,
        Outcome::Shed,
        Outcome::Deferred,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Allowed => "allowed",
            Outcome::Denied => "denied",
            Outcome::ShadowDenied => "shadow_denied",
            Outcome::Banned => "banned",
            Outcome::Delayed => "delayed",
            Outcome::Shed => "shed",
            Outcome::Deferred => "deferred",
        }
    }

    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Outcome::Denied | Outcome::Banned | Outcome::Shed | Outcome::Deferred)
    }
}

/// What some threads count in.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Stripe {
    decisions: Box<[AtomicU64]>,
    pub(super) took: [Histogram; DoorName::ALL.len()],
    pub(super) store: Histogram,
    pub(super) waits: Histogram,
    pub(super) passed: Passed,
    pub(super) noisy: Mutex<Noisy>,
}

impl Stripe {
    pub(super) fn new(top_keys: usize) -> Stripe {
        let zeros = || (0..MOST * Outcome::ALL.len()).map(|_| AtomicU64::new(0)).collect();
        Stripe {
            decisions: zeros(),
            took: Default::default(),
            store: Histogram::default(),
            waits: Histogram::default(),
            passed: Passed::default(),
            noisy: Mutex::new(Noisy::new(top_keys)),
        }
    }

    #[inline]
    pub(super) fn count(&self, series: u32, outcome: Outcome) {
        self.counter(series, outcome).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counter(&self, series: u32, outcome: Outcome) -> &AtomicU64 {
        &self.decisions[series as usize * Outcome::ALL.len() + outcome as usize]
    }
}

/// As many stripes as threads are likely to count at once.
pub(super) fn stripes(top_keys: usize) -> Box<[Stripe]> {
    let threads = std::thread::available_parallelism().map_or(4, usize::from);
    let count = (2 * threads).next_power_of_two().min(32);
    (0..count).map(|_| Stripe::new(top_keys)).collect()
}

/// The number of this thread: neighbours in time get different stripes.
#[inline]
pub(super) fn this_thread() -> usize {
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

/// The smallest time that is told apart, as a power of two of nanoseconds.
const SMALLEST_BITS: u32 = 8;
/// 256 ns, 512 ns, and so on up to half a minute; the last takes what is longer.
pub(super) const BUCKETS: usize = 28;

/// How long things took.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// Several histograms added up.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub(super) counts: [u64; BUCKETS],
    pub(super) sum_ns: u64,
}

impl Histogram {
    /// So many things took this long together.
    #[inline]
    pub(super) fn record(&self, times: u64, span: Span) {
        let ns = span.as_nanos();
        self.counts[bucket(ns / times.max(1))].fetch_add(times, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(super) fn add_to(&self, times: &mut Times) {
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

/// The longest time in a bucket, in seconds; none in the last.
pub(super) fn bound(bucket: usize) -> Option<f64> {
    (bucket + 1 < BUCKETS).then(|| (1_u64 << (SMALLEST_BITS as usize + bucket)) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for ns in [0, 1, 255, 256, 257, 511, 512, 513, 1_000_000, u64::MAX] {
            let found = bucket(ns);
            assert!(bound(found).is_none_or(|bound| ns as f64 / 1e9 <= bound), "{ns}");
            let before = found.checked_sub(1).and_then(bound);
            assert!(before.is_none_or(|bound| ns as f64 / 1e9 > bound), "{ns}");
        }
    }
}
