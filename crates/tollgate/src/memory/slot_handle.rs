//! The slot of one check: its class, its fingerprint and, once locked, its position.

use super::MemoryStore;
use super::boxed::BoxedStates;
use super::slot_class::SlotClass;
use super::table_hash::TableHash;
use super::table_slot::TableSlot;
use crate::Key;
use crate::key::Fingerprint;
use crate::limit::Limit;
use crate::store::CounterId;

/// A slot class, the fingerprint of a key, and what was found of the key there.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotHandle<'a> {
    pub(super) class: SlotClass,
    pub(super) fingerprint: Fingerprint,
    pub(super) location: SlotLocation<'a>,
    /// Whether no state was found when the account was opened.
    pub(super) vacant: bool,
    /// Whether a key is reserved for this slot.
    pub(super) reserved: bool,
}

/// The position of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotLocation<'a> {
    /// No position: an unlimited key has no state.
    Absent,
    /// The number, in its class, of the lock that is still to be taken.
    Unlocked(u64),
    /// A position in the locked narrow table.
    Narrow(TableSlot<'a, 8, 1>),
    /// A position in the locked wide table.
    Wide(TableSlot<'a, 16, 3>),
    /// The index of the locked shard.
    Boxed(usize),
}

impl<'a> SlotHandle<'a> {
    /// A handle of no slot.
    pub(super) const ABSENT: SlotHandle<'a> = SlotHandle {
        class: SlotClass::Absent,
        fingerprint: [0, 0],
        location: SlotLocation::Absent,
        vacant: false,
        reserved: false,
    };

    /// Creates the handle of a key's slot.
    #[inline]
    pub(super) fn new(
        store: &MemoryStore,
        counter: CounterId,
        key: Key<'_>,
        limit: &Limit,
    ) -> SlotHandle<'a> {
        let mut handle = SlotHandle::ABSENT;
        handle.assign(store, counter, key, limit);
        handle
    }

    /// Makes this the handle of a key's slot.
    #[inline]
    pub(super) fn assign(
        &mut self,
        store: &MemoryStore,
        counter: CounterId,
        key: Key<'_>,
        limit: &Limit,
    ) {
        self.class = SlotClass::for_limit(limit);
        self.fingerprint = store.fingerprinter.fingerprint(counter, key);
    }

    /// Returns the hash of the key in a table.
    #[inline]
    pub(super) fn hash(&self) -> TableHash {
        TableHash::new(self.fingerprint)
    }

    /// Returns whether two handles are of the same slot.
    #[inline]
    pub(super) fn is_same_slot(&self, other: &SlotHandle<'_>) -> bool {
        (self.fingerprint, self.class) == (other.fingerprint, other.class)
    }

    /// Finds the lock that covers the slot at this moment, and starts to bring its line into the
    /// cache, so that the misses of several checks overlap.
    #[inline]
    pub(super) fn prefetch(&mut self, store: &MemoryStore) {
        self.location = match self.class {
            SlotClass::Narrow => SlotLocation::Unlocked(store.narrow.prefetch_number(self.hash())),
            SlotClass::Wide => SlotLocation::Unlocked(store.wide.prefetch_number(self.hash())),
            SlotClass::Boxed => SlotLocation::Unlocked(BoxedStates::shard_number(self.fingerprint)),
            SlotClass::Absent => SlotLocation::Absent,
        };
    }

    /// Returns the lock that is still to be taken.
    #[inline]
    pub(super) fn missing_lock(&self) -> Option<(SlotClass, u64)> {
        match self.location {
            SlotLocation::Unlocked(number) => Some((self.class, number)),
            _ => None,
        }
    }
}
