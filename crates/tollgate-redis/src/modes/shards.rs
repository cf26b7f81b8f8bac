//! A bounded table in shards, so that requests on different counters seldom wait for each other.

use std::collections::HashMap;
use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::name::Name;

/// How many shards a table has.
pub(super) const SHARDS: usize = 64;

/// The entries of a shard.
pub(super) type Shard<V> = HashMap<Name, V, RandomState>;

/// A table of at most so many entries.
#[derive(Debug)]
pub(super) struct Shards<V> {
    shards: Box<[Mutex<Shard<V>>]>,
    hasher: RandomState,
    most: usize,
}

impl<V> Shards<V> {
    /// A table with room for about `most` entries.
    pub(super) fn new(most: usize) -> Shards<V> {
        let hasher = RandomState::default();
        let shard = |_| Mutex::new(HashMap::with_hasher(hasher.clone()));
        let most = most.div_ceil(SHARDS);
        Shards { shards: (0..SHARDS).map(shard).collect(), hasher, most }
    }

    /// Which shard a name belongs to.
    pub(super) fn number(&self, name: &Name) -> usize {
        // The table below takes the lower and the highest bits.
        (self.hasher.hash_one(name) >> 32) as usize % SHARDS
    }

    /// The shard of a name.
    pub(super) fn of(&self, name: &Name) -> MutexGuard<'_, Shard<V>> {
        self.shards[self.number(name)].lock()
    }

    /// The shards of several names, all held.
    pub(super) fn of_all(&self, names: &[Name]) -> Held<'_, V> {
        let mut numbers: SmallVec<[usize; 4]> = names.iter().map(|n| self.number(n)).collect();
        // One order for all, so that no two wait for each other.
        numbers.sort_unstable();
        numbers.dedup();
        let guards = numbers.iter().map(|number| (*number, self.shards[*number].lock()));
        Held { shards: self, guards: guards.collect() }
    }

    /// All shards, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Shard<V>>> {
        self.shards.iter().map(|shard| shard.lock())
    }

    /// Whether there is room for another entry.
    pub(super) fn has_room(&self, shard: &Shard<V>) -> bool {
        shard.len() < self.most
    }
}

/// Shards that nobody else can look into.
pub(super) struct Held<'a, V> {
    shards: &'a Shards<V>,
    guards: SmallVec<[(usize, MutexGuard<'a, Shard<V>>); 4]>,
}

impl<V> Held<'_, V> {
    /// The entry of one of the names.
    pub(super) fn get(&mut self, name: &Name) -> Option<&mut V> {
        let number = self.shards.number(name);
        let (_, shard) = self.guards.iter_mut().find(|(held, _)| *held == number)?;
        shard.get_mut(name)
    }
}
