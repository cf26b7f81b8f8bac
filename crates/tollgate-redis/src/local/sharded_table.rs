//! A bounded table in shards, so that requests on different counters seldom wait for each other.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use crate::local::counter_name::CounterName;

/// The number of shards of a table.
pub(crate) const SHARDS: usize = 64;

/// The entries of a shard.
pub(crate) type Shard<V> = HashMap<CounterName, V, RandomState>;

/// A hash table with a bounded number of entries.
#[derive(Debug)]
pub(crate) struct ShardedTable<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    hasher: RandomState,
    most: usize,
}

impl<V> ShardedTable<V> {
    /// Creates a table with capacity for about `most` entries.
    pub(crate) fn new(most: usize) -> ShardedTable<V> {
        let hasher = RandomState::default();
        let shard = |_| Mutex::new(HashMap::with_hasher(hasher.clone()));
        let most = most.div_ceil(SHARDS);
        ShardedTable { shards: (0..SHARDS).map(shard).collect(), hasher, most }
    }

    /// Returns the index of the shard of a name.
    pub(crate) fn number(&self, name: &CounterName) -> usize {
        // The hash table in the shard uses the lower and the highest bits.
        (self.hasher.hash_one(name) >> 32) as usize % SHARDS
    }

    /// Locks the shard of a name.
    pub(crate) fn shard(&self, name: &CounterName) -> MutexGuard<'_, Shard<V>> {
        self.shards[self.number(name)].lock()
    }

    /// Locks the shards of several names.
    pub(crate) fn lock_all(&self, names: &[CounterName]) -> LockedShards<'_, V> {
        let mut numbers: SmallVec<[usize; 4]> = names.iter().map(|n| self.number(n)).collect();
        // A fixed order prevents deadlocks.
        numbers.sort_unstable();
        numbers.dedup();
        let guards = numbers.iter().map(|number| (*number, self.shards[*number].lock()));
        LockedShards { shards: self, guards: guards.collect() }
    }

    /// Locks all shards, one after the other.
    pub(crate) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<V>>> {
        self.shards.iter().map(|shard| shard.lock())
    }

    /// Returns whether a shard has capacity for another entry.
    pub(crate) fn has_capacity(&self, shard: &Shard<V>) -> bool {
        shard.len() < self.most
    }
}

/// The locked shards of several names.
pub(crate) struct LockedShards<'a, V> {
    shards: &'a ShardedTable<V>,
    guards: SmallVec<[(usize, MutexGuard<'a, Shard<V>>); 4]>,
}

impl<V> LockedShards<'_, V> {
    /// Returns the entry of one of the names.
    pub(crate) fn get(&mut self, name: &CounterName) -> Option<&mut V> {
        let number = self.shards.number(name);
        let (_, shard) = self.guards.iter_mut().find(|(locked, _)| *locked == number)?;
        shard.get_mut(name)
    }
}
