//! The maximum memory of the store: the share of each slot class, and eviction to keep within it.
//!
//! A table never returns a line, so a class that is full evicts keys of its own, and so that no class
//! can take all memory, an eighth is set aside for each. The rest goes to the class that needs it
//! first. A table that wants to grow evicts boxed states if those take more memory than it does.
//!
//! Decisions on existing keys in tables do not come here. A new key does, once its table is due to
//! grow, and so does every boxed state, which may have grown.

use super::MemoryStore;
use super::slot_class::SlotClass;
use crate::sync::yield_now;

/// The default maximum: enough for the default maximum number of keys in either table.
pub(super) const DEFAULT_MAX_MEMORY: u64 = 2 << 30;
/// The part of the memory that is set aside for each slot class.
const CLASS_SHARE: u64 = 8;
/// The bytes for which a new boxed state needs room; the store makes room for more when it has grown.
const NEW_BOXED_STATE: u64 = 256;
/// Boxed states that are evicted at once to make room for a new one.
const EVICTION_BATCH: u32 = 64;

impl MemoryStore {
    /// The smallest value of [`max_memory`](MemoryStore::max_memory): 16 MiB.
    ///
    /// The minimum leaves every kind of counter enough for its first keys and for the largest state.
    pub const MIN_MEMORY: u64 = if cfg!(shuttle) { 4 << 10 } else { 16 << 20 };

    /// Sets the maximum memory of the counters in bytes (2 GiB unless set; at least 16 MiB).
    ///
    /// At the maximum, a new key, or a log or set of permits that has grown, evicts the keys that owe
    /// least. An eighth of the memory is set aside for each of: token buckets, windows, and the rest.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new().max_memory(16 << 20);
    /// let limit: Limit = "4k/h sliding slots 3600".parse()?;
    /// for user in 0..100_000_u64 {
    ///     store.decide_one_now(&Check::new(CounterId::new(0), user, &limit, 1));
    /// }
    /// assert!(store.memory() <= 16 << 20);
    /// assert!(store.evictions() > 0);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn max_memory(mut self, bytes: u64) -> MemoryStore {
        self.max_memory = bytes.max(MemoryStore::MIN_MEMORY);
        self
    }

    /// Returns the memory of the counters in bytes.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h log".parse()?);
    /// assert_eq!(store.memory(), 0);
    /// store.decide_one_now(&Check::new(CounterId::new(0), "ann", &limit, 1));
    /// assert!((100..1_000).contains(&store.memory()));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn memory(&self) -> u64 {
        self.narrow.bytes() + self.wide.bytes() + self.boxed.bytes()
    }

    /// Returns the bytes that a class takes or may take without further growth.
    fn claim(&self, class: SlotClass) -> u64 {
        match class {
            SlotClass::Narrow => self.narrow.claim(),
            SlotClass::Wide => self.wide.claim(),
            SlotClass::Boxed => self.boxed.bytes(),
            SlotClass::Absent => 0,
        }
    }

    /// Returns the most that a class may claim beside what the others have, or have set aside.
    fn allowance(&self, class: SlotClass) -> u64 {
        let share = self.max_memory / CLASS_SHARE;
        let others = [SlotClass::Narrow, SlotClass::Wide, SlotClass::Boxed].into_iter();
        let others = others.filter(|other| *other != class);
        let taken = others.map(|other| self.claim(other).max(share)).sum();
        self.max_memory.saturating_sub(taken)
    }

    /// Returns whether the table of a class may add a line.
    #[cold]
    pub(super) fn may_grow(&self, class: SlotClass) -> bool {
        let line = match class {
            SlotClass::Narrow => self.narrow.line_bytes(),
            _ => self.wide.line_bytes(),
        };
        // A new line comes with its part of the overflow lines.
        self.claim(class) + 2 * line <= self.allowance(class)
    }

    /// Returns whether there is memory for the keys of a class that are counted and for `more`.
    #[inline]
    pub(super) fn has_memory(&self, class: SlotClass, more: u64) -> bool {
        match class {
            SlotClass::Narrow => {
                !self.narrow.is_crowded_by(self.narrow.len() + more) || self.may_grow(class)
            }
            SlotClass::Wide => {
                !self.wide.is_crowded_by(self.wide.len() + more) || self.may_grow(class)
            }
            SlotClass::Boxed => self.boxed.bytes() + NEW_BOXED_STATE <= self.allowance(class),
            SlotClass::Absent => true,
        }
    }

    /// Evicts a key so that one of a class fits, if memory is what prevents that.
    ///
    /// The caller has no slot locked, and may have to call again, as for the number of keys. `owes` is
    /// the time at which a new narrow key is full.
    #[cold]
    pub(super) fn free_memory(&self, class: SlotClass, owes: u64) {
        let table = match class {
            SlotClass::Narrow => self.narrow.bytes(),
            SlotClass::Wide => self.wide.bytes(),
            SlotClass::Boxed | SlotClass::Absent => 0,
        };
        let (from, most) = match self.boxed.bytes() > table {
            true => (SlotClass::Boxed, EVICTION_BATCH),
            false => (class, 1),
        };
        for _ in 0..most {
            if self.has_memory(class, 1) {
                return;
            }
            if !self.evict_from(from, owes) {
                return yield_now(); // All keys are reserved by threads that have not inserted them yet.
            }
        }
    }

    /// Evicts boxed states after one of them has grown, until they are within their allowance.
    #[cold]
    pub(super) fn trim_boxed(&self) {
        let mut left = self.boxed.len();
        while left > 0 && self.boxed.bytes() > self.allowance(SlotClass::Boxed) {
            if !self.evict_from(SlotClass::Boxed, 0) {
                return; // Another request has charged the key; it evicts one itself.
            }
            left -= 1;
        }
    }
}
