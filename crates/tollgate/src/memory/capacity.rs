//! The maximum number of keys: reservation before an insert, and eviction.
//!
//! The maximum memory is in `budget.rs`; a reservation needs both.
//!
//! A key is counted before it is inserted, and inserted only if the count is within the maximum.
//! So the store never holds more keys than that, whatever its threads do at the same time. A
//! request that finds the store full releases its locks, evicts the keys that owe least, and
//! starts over.

use super::MemoryStore;
use super::slot_class::SlotClass;
use crate::sync::{Ordering, yield_now};

impl MemoryStore {
    /// Counts one key more of a slot class, unless the store is full.
    #[inline]
    pub(super) fn reserve(&self, class: SlotClass) -> bool {
        let keys = match class {
            SlotClass::Narrow => self.narrow.reserve() + self.wide.len() + self.boxed.len(),
            SlotClass::Wide => self.wide.reserve() + self.narrow.len() + self.boxed.len(),
            SlotClass::Boxed => self.boxed.reserve() + self.narrow.len() + self.wide.len(),
            SlotClass::Absent => return true,
        };
        let fits = keys <= self.max_keys && self.has_memory(class, 0);
        if !fits {
            self.cancel_reservation(class);
        }
        fits
    }

    /// Returns a reservation that is not used.
    pub(super) fn cancel_reservation(&self, class: SlotClass) {
        match class {
            SlotClass::Narrow => self.narrow.uncount(1),
            SlotClass::Wide => self.wide.uncount(1),
            SlotClass::Boxed => self.boxed.uncount(1),
            SlotClass::Absent => {}
        }
    }

    /// Evicts up to `count` keys so that as many fit. `owes` is the time at which a new narrow key
    /// is full.
    ///
    /// The caller has no slot locked. It may have to call again, since other threads add keys as
    /// well. The bound matters because the number of keys includes reservations of other threads
    /// that are about to be cancelled: eviction until the store has room would drop keys for them.
    #[cold]
    pub(super) fn evict_for(&self, count: u64, owes: u64) {
        let allowed = self.max_keys.saturating_sub(count);
        for _ in 0..count {
            if self.len() <= allowed {
                return;
            }
            if !self.evict(owes) {
                yield_now(); // All keys are reserved by threads that have not inserted them yet.
            }
        }
    }

    /// Evicts one key of the slot class with most keys, which offers the largest sample.
    fn evict(&self, owes: u64) -> bool {
        let (narrow, wide, boxed) = (self.narrow.len(), self.wide.len(), self.boxed.len());
        match narrow.max(wide).max(boxed) {
            0 => false,
            most if most == narrow => self.evict_from(SlotClass::Narrow, owes),
            most if most == wide => self.evict_from(SlotClass::Wide, owes),
            _ => self.evict_from(SlotClass::Boxed, owes),
        }
    }

    /// Evicts the key of a class that owes least of a sample; returns whether it did.
    pub(super) fn evict_from(&self, class: SlotClass, owes: u64) -> bool {
        let evicted = match class {
            SlotClass::Narrow => self.narrow.evict(owes),
            SlotClass::Wide => self.wide.evict(owes),
            SlotClass::Boxed => self.boxed.evict(),
            SlotClass::Absent => false,
        };
        self.evictions.fetch_add(evicted.into(), Ordering::Relaxed);
        evicted
    }
}
