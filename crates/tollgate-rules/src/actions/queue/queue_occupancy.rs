//! How much of a queue's capacity each key uses.

use std::collections::{BTreeSet, HashMap};

use super::queue_order::ShareKey;

/// The entries of a queue by the key that shares its capacity.
#[derive(Debug, Default)]
pub(super) struct QueueOccupancy {
    entries: HashMap<ShareKey, BTreeSet<u64>>,
    /// The number of entries and the key, in order.
    by_size: BTreeSet<(usize, ShareKey)>,
    taken: usize,
}

impl QueueOccupancy {
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn entries_of(&self, share_key: &[u8]) -> usize {
        self.entries.get(share_key).map_or(0, BTreeSet::len)
    }

    /// The largest number of entries of one key.
    pub(super) fn most(&self) -> usize {
        self.by_size.last().map_or(0, |(number, _)| *number)
    }

    pub(super) fn add(&mut self, share_key: &ShareKey, id: u64) {
        let ids = self.entries.entry(share_key.clone()).or_default();
        self.by_size.remove(&(ids.len(), share_key.clone()));
        ids.insert(id);
        self.by_size.insert((ids.len(), share_key.clone()));
        self.taken += 1;
    }

    pub(super) fn remove(&mut self, share_key: &ShareKey, id: u64) {
        let Some(ids) = self.entries.get_mut(share_key) else { return };
        self.by_size.remove(&(ids.len(), share_key.clone()));
        self.taken -= usize::from(ids.remove(&id));
        match ids.len() {
            0 => drop(self.entries.remove(share_key)),
            left => drop(self.by_size.insert((left, share_key.clone()))),
        }
    }

    /// Whether a new entry fits, if need be by displacing another.
    pub(super) fn has_capacity_for(&self, share_key: &[u8], capacity: u64) -> bool {
        (self.taken as u64) < capacity || self.entries_of(share_key) + 2 <= self.most()
    }

    /// Returns the entry that a new one displaces if the queue is full: the last one to be served
    /// of the largest key, which must have at least two entries more than the new one's key.
    pub(super) fn entry_to_displace(
        &self,
        share_key: &[u8],
        capacity: u64,
        lifo: bool,
    ) -> Option<u64> {
        if (self.taken as u64) < capacity || !self.has_capacity_for(share_key, capacity) {
            return None;
        }
        let (_, largest) = self.by_size.last()?;
        let ids = self.entries.get(largest)?;
        if lifo { ids.first() } else { ids.last() }.copied()
    }
}
