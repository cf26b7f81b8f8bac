//! Amounts that were spent without the store and are still to be charged to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_core::{Span, Time};

use tollgate::CounterId;

/// The maximum number of counters with debts; debts beyond it are forgiven.
const MAX_DEBTS: usize = 1 << 17;
/// How often expired debts are removed.
const BETWEEN_SWEEPS: Span = Span::from_secs(5);

/// The debts by counter. A debt expires when its share of the limit is full again, because by then
/// the store would have forgotten it too.
#[derive(Debug, Default)]
pub(crate) struct StoreDebts {
    /// The number of debts, readable without the lock; almost always zero.
    count: AtomicUsize,
    counters: Mutex<DebtTable>,
}

#[derive(Debug, Default)]
struct DebtTable {
    by_counter: HashMap<u64, HashMap<Box<[u8]>, CounterDebt>>,
    count: usize,
    next_sweep: Time,
}

#[derive(Clone, Copy, Debug)]
struct CounterDebt {
    amount: u64,
    until: Time,
}

impl StoreDebts {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a debt to a counter, whose share is full again at `until`.
    pub(crate) fn add(&self, counter: CounterId, key: &[u8], amount: u64, until: Time, now: Time) {
        let mut counters = self.counters.lock();
        if counters.count >= MAX_DEBTS {
            counters.sweep(now);
        }
        let is_full = counters.count >= MAX_DEBTS;
        let keys = counters.by_counter.entry(counter.number()).or_default();
        match keys.get_mut(key) {
            Some(debt) => {
                let before = if debt.until > now { debt.amount } else { 0 };
                *debt = CounterDebt { amount: before.saturating_add(amount), until };
            }
            None if is_full => {}
            None => {
                keys.insert(key.into(), CounterDebt { amount, until });
                counters.count += 1;
            }
        }
        self.count.store(counters.count, Ordering::Relaxed);
    }

    /// Takes the debt of a counter. The caller charges it.
    pub(crate) fn take(&self, counter: CounterId, key: &[u8], now: Time) -> Option<(u64, Time)> {
        if self.is_empty() {
            return None;
        }
        let mut counters = self.counters.lock();
        if now >= counters.next_sweep {
            counters.sweep(now);
        }
        let debt = counters.by_counter.get_mut(&counter.number()).and_then(|keys| keys.remove(key));
        counters.count -= usize::from(debt.is_some());
        self.count.store(counters.count, Ordering::Relaxed);
        debt.filter(|debt| debt.until > now).map(|debt| (debt.amount, debt.until))
    }
}

impl DebtTable {
    fn sweep(&mut self, now: Time) {
        // Without this, every new debt would sweep again while none has expired.
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + BETWEEN_SWEEPS;
        self.by_counter.retain(|_, keys| {
            keys.retain(|_, debt| debt.until > now);
            !keys.is_empty()
        });
        self.count = self.by_counter.values().map(HashMap::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: CounterId = CounterId::new(1);

    fn at(seconds: u64) -> Time {
        Time::EPOCH + Span::from_secs(seconds)
    }

    #[test]
    fn a_debt_grows_and_is_taken_once() {
        let debts = StoreDebts::default();
        debts.add(ONE, b"ann", 2, at(10), at(0));
        debts.add(ONE, b"ann", 3, at(12), at(1));
        assert_eq!(debts.take(CounterId::new(2), b"ann", at(2)), None);
        assert_eq!(debts.take(ONE, b"ann", at(2)), Some((5, at(12))));
        assert_eq!(debts.take(ONE, b"ann", at(2)), None);
        assert!(debts.is_empty());
    }

    #[test]
    fn expired_debts_are_removed() {
        let debts = StoreDebts::default();
        debts.add(ONE, b"ann", 2, at(10), at(0));
        debts.add(ONE, b"bob", 2, at(10), at(0));
        debts.add(ONE, b"ann", 1, at(30), at(20));
        assert_eq!(debts.take(ONE, b"ann", at(20)), Some((1, at(30))));
        assert!(debts.is_empty(), "bob was swept");
    }

    #[test]
    fn the_number_of_debts_is_bounded() {
        let debts = StoreDebts::default();
        for key in 0..MAX_DEBTS + 10 {
            debts.add(ONE, &key.to_ne_bytes(), 1, at(10), at(0));
        }
        assert_eq!(debts.count.load(Ordering::Relaxed), MAX_DEBTS);
        debts.add(ONE, b"later", 1, at(30), at(10));
        assert_eq!(debts.take(ONE, b"later", at(11)), Some((1, at(30))));
    }
}
