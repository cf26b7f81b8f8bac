//! What was spent without the store and is yet to be charged to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_core::{Span, Time};

use crate::Bucket;

/// So many counters are remembered; what is spent on more of them is forgiven.
const MOST: usize = 1 << 17;
/// What was paid off by time is looked for so often.
const BETWEEN_SWEEPS: Span = Span::from_secs(5);

/// Amounts by counter. A counter is known until its share of the limit is as good as new: by then
/// the store would have forgotten the debt too.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// How many there are, for who has no time to look: nearly always none.
    count: AtomicUsize,
    counters: Mutex<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    by_bucket: HashMap<u64, HashMap<Box<[u8]>, Debt>>,
    count: usize,
    next_sweep: Time,
}

#[derive(Clone, Copy, Debug)]
struct Debt {
    amount: u64,
    until: Time,
}

impl Owed {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// So much more was spent on a counter, which is as good as new at `until`.
    pub(super) fn add(&self, bucket: Bucket, key: &[u8], amount: u64, until: Time, now: Time) {
        let mut counters = self.counters.lock();
        if counters.count >= MOST {
            counters.sweep(now);
        }
        let is_full = counters.count >= MOST;
        let keys = counters.by_bucket.entry(bucket.number()).or_default();
        match keys.get_mut(key) {
            Some(debt) => {
                let before = if debt.until > now { debt.amount } else { 0 };
                *debt = Debt { amount: before.saturating_add(amount), until };
            }
            None if is_full => {}
            None => {
                keys.insert(key.into(), Debt { amount, until });
                counters.count += 1;
            }
        }
        self.count.store(counters.count, Ordering::Relaxed);
    }

    /// What is owed on a counter. Whoever takes it charges it.
    pub(super) fn take(&self, bucket: Bucket, key: &[u8], now: Time) -> Option<(u64, Time)> {
        if self.is_empty() {
            return None;
        }
        let mut counters = self.counters.lock();
        if now >= counters.next_sweep {
            counters.sweep(now);
        }
        let debt = counters.by_bucket.get_mut(&bucket.number()).and_then(|keys| keys.remove(key));
        counters.count -= usize::from(debt.is_some());
        self.count.store(counters.count, Ordering::Relaxed);
        debt.filter(|debt| debt.until > now).map(|debt| (debt.amount, debt.until))
    }
}

impl Counters {
    fn sweep(&mut self, now: Time) {
        // Not again for each of many newcomers, if all of these are still owed.
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + BETWEEN_SWEEPS;
        self.by_bucket.retain(|_, keys| {
            keys.retain(|_, debt| debt.until > now);
            !keys.is_empty()
        });
        self.count = self.by_bucket.values().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Bucket = Bucket::new(1);

    fn at(seconds: u64) -> Time {
        Time::EPOCH + Span::from_secs(seconds)
    }

    #[test]
    fn a_debt_grows_and_is_taken_once() {
        let owed = Owed::default();
        owed.add(ONE, b"ann", 2, at(10), at(0));
        owed.add(ONE, b"ann", 3, at(12), at(1));
        assert_eq!(owed.take(Bucket::new(2), b"ann", at(2)), None);
        assert_eq!(owed.take(ONE, b"ann", at(2)), Some((5, at(12))));
        assert_eq!(owed.take(ONE, b"ann", at(2)), None);
        assert!(owed.is_empty());
    }

    #[test]
    fn what_time_has_paid_off_is_forgotten() {
        let owed = Owed::default();
        owed.add(ONE, b"ann", 2, at(10), at(0));
        owed.add(ONE, b"bob", 2, at(10), at(0));
        owed.add(ONE, b"ann", 1, at(30), at(20));
        assert_eq!(owed.take(ONE, b"ann", at(20)), Some((1, at(30))));
        assert!(owed.is_empty(), "bob was swept");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let owed = Owed::default();
        for key in 0..MOST + 10 {
            owed.add(ONE, &key.to_ne_bytes(), 1, at(10), at(0));
        }
        assert_eq!(owed.count.load(Ordering::Relaxed), MOST);
        owed.add(ONE, b"later", 1, at(30), at(10));
        assert_eq!(owed.take(ONE, b"later", at(11)), Some((1, at(30))));
    }
}
