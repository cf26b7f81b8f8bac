//! Boxed slots: states on the heap, such as logs, many-slot windows, leases and warm-ups.
//!
//! Limits with such states are rare and expensive by themselves, so a sharded hash map, with whole
//! 128-bit fingerprints as keys, is fast enough.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use tollgate_core::{Time, Verdict};

use super::table_slot::spent_level;
use crate::account::{ALLOCATION_OVERHEAD, Account, State};
use crate::key::Fingerprint;
use crate::limit::Limit;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// The number of shards: enough that growing one is quick even with ten million keys.
const SHARDS: usize = if cfg!(shuttle) { 2 } else { 1024 };
/// Entries that an eviction compares.
const EVICTION_SAMPLE: usize = 16;
/// The minimum size of a shard that is swept.
const SWEEP_FROM: usize = 64;

/// The boxed slots of a store.
#[derive(Debug)]
pub(super) struct BoxedStates {
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    /// Keys in the map and keys reserved.
    keys: AtomicU64,
    /// The bytes of all states, and of the maps that hold them.
    bytes: AtomicU64,
    /// The shard at which the next eviction starts.
    cursor: AtomicU64,
    /// How often an eviction has removed a key.
    removals: AtomicU64,
}

/// A part of the map with a lock of its own.
#[derive(Debug, Default)]
pub(super) struct Shard {
    states: HashMap<Fingerprint, BoxedEntry, BuildHasherDefault<FingerprintHasher>>,
    /// The size at which the next sweep is due.
    sweep_at: usize,
    /// The entries for which the map has allocated memory.
    capacity: usize,
}

/// The state of one key.
#[derive(Debug)]
pub(super) struct BoxedEntry {
    pub(super) state: State,
    pub(super) full_at: Time,
    /// The spent level, 15 being everything.
    pub(super) level: u8,
    /// The bytes of the state on the heap.
    heap_bytes: u64,
}

/// How much a key owes: its spent level, then the time at which it is full again.
type BoxedRank = (u8, Time);

impl BoxedEntry {
    /// Creates the entry of a state.
    #[inline]
    pub(super) fn new(state: State, full_at: Time, level: u8) -> BoxedEntry {
        BoxedEntry { heap_bytes: state.heap_bytes(), state, full_at, level }
    }

    /// Returns how much the key owes, for comparisons.
    fn rank(&self) -> BoxedRank {
        (self.level, self.full_at)
    }
}

impl Shard {
    /// Returns the entry of a key, unless it has expired.
    pub(super) fn live(&self, fingerprint: Fingerprint, now: Time) -> Option<&BoxedEntry> {
        self.states.get(&fingerprint).filter(|entry| entry.full_at > now)
    }

    /// Returns all keys.
    pub(super) fn keys(&self) -> Vec<Fingerprint> {
        self.states.keys().copied().collect()
    }

    /// Returns whether the shard has a state that has not expired.
    pub(super) fn contains(&self, fingerprint: Fingerprint, now: Time) -> bool {
        self.live(fingerprint, now).is_some()
    }

    /// Copies a state that has not expired.
    fn copy(&self, fingerprint: Fingerprint, now: Time) -> Option<State> {
        self.live(fingerprint, now).map(|entry| entry.state.clone())
    }

    /// Moves a state that has not expired out of its entry, until [`restore`](Self::restore) or
    /// [`BoxedStates::put`].
    fn take(&mut self, fingerprint: Fingerprint, now: Time) -> Option<State> {
        let entry = self.states.get_mut(&fingerprint).filter(|entry| entry.full_at > now)?;
        Some(std::mem::replace(&mut entry.state, State::Nothing))
    }

    /// Reads the state of a key under `limit`, unless it has expired: copies it, or moves it out.
    #[inline(always)]
    pub(super) fn load(
        &mut self,
        fingerprint: Fingerprint,
        limit: &Limit,
        copy: bool,
        now: Time,
    ) -> Option<State> {
        let state = match copy {
            true => self.copy(fingerprint, now),
            false => self.take(fingerprint, now),
        };
        state.filter(|state| state.fits(limit))
    }

    /// Moves a state back into the entry from which it was taken.
    pub(super) fn restore(&mut self, fingerprint: Fingerprint, state: State) {
        if let Some(entry) = self.states.get_mut(&fingerprint) {
            entry.state = state;
        }
    }
}

impl BoxedStates {
    /// Creates an empty map, which allocates nothing until its first use.
    pub(super) fn new() -> BoxedStates {
        BoxedStates {
            shards: OnceLock::new(),
            keys: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            cursor: AtomicU64::new(0),
            removals: AtomicU64::new(0),
        }
    }

    /// Returns the number of keys, including reserved ones.
    pub(super) fn len(&self) -> u64 {
        self.keys.load(Ordering::SeqCst)
    }

    /// Returns the bytes of all states.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Counts one key more, ahead of its insertion; returns the number of keys with it.
    pub(super) fn reserve(&self) -> u64 {
        self.keys.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Counts keys that were removed, or reserved and not inserted.
    pub(super) fn uncount(&self, fewer: u64) {
        self.keys.fetch_sub(fewer, Ordering::SeqCst);
    }

    /// Returns the number of shards.
    pub(super) fn shard_count() -> u64 {
        SHARDS as u64
    }

    /// Returns the number of the shard that a fingerprint belongs to.
    pub(super) fn shard_number(fingerprint: Fingerprint) -> u64 {
        fingerprint[0] % SHARDS as u64
    }

    /// Locks the shard that a fingerprint belongs to.
    pub(super) fn lock_for(&self, fingerprint: Fingerprint) -> MutexGuard<'_, Shard> {
        self.lock(BoxedStates::shard_number(fingerprint))
    }

    /// Locks a shard.
    pub(super) fn lock(&self, shard: u64) -> MutexGuard<'_, Shard> {
        let shards =
            self.shards.get_or_init(|| (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect());
        shards[shard as usize].lock()
    }

    /// Moves the state of an account, which `verdict` describes, to its key's entry, as
    /// [`put`](Self::put) does.
    #[inline]
    pub(super) fn save(
        &self,
        shard: &mut Shard,
        fingerprint: Fingerprint,
        account: &mut Account<'_>,
        verdict: &Verdict,
        reserved: bool,
        now: Time,
    ) -> bool {
        let (full_at, level) = (account.full_at(), spent_level(verdict));
        let state = std::mem::replace(&mut account.state, State::Nothing);
        self.put(shard, fingerprint, BoxedEntry::new(state, full_at, level), reserved, now)
    }

    /// Writes a state, unless it equals an absent one; adds a key only if one is `reserved`.
    ///
    /// Returns whether it has used the reservation.
    pub(super) fn put(
        &self,
        shard: &mut Shard,
        fingerprint: Fingerprint,
        entry: BoxedEntry,
        reserved: bool,
        now: Time,
    ) -> bool {
        if entry.full_at <= now {
            self.remove(shard, fingerprint);
            return false;
        }
        match shard.states.entry(fingerprint) {
            Entry::Occupied(mut occupied) => {
                let (old, after) = (occupied.get_mut(), entry.heap_bytes);
                let before = old.heap_bytes;
                *old = entry;
                self.count_bytes(before, after);
                return false;
            }
            Entry::Vacant(_) if !reserved => return false,
            Entry::Vacant(vacant) => self.count_bytes(0, vacant.insert(entry).heap_bytes),
        }
        let capacity = shard.states.capacity();
        if capacity > shard.capacity {
            self.count_bytes(map_bytes(shard.capacity), map_bytes(capacity));
            shard.capacity = capacity;
        }
        if shard.states.len() > shard.sweep_at.max(SWEEP_FROM) {
            self.sweep_shard(shard, now);
            shard.sweep_at = shard.states.len() * 2;
        }
        true
    }

    /// Removes the state of a key, if there is one.
    pub(super) fn remove(&self, shard: &mut Shard, fingerprint: Fingerprint) {
        if let Some(entry) = shard.states.remove(&fingerprint) {
            self.uncount(1);
            self.count_bytes(entry.heap_bytes, 0);
            self.shrink_map(shard);
        }
    }

    /// Counts bytes that have become more or fewer.
    #[inline]
    fn count_bytes(&self, before: u64, after: u64) {
        match after.checked_sub(before) {
            Some(0) => {}
            Some(more) => _ = self.bytes.fetch_add(more, Ordering::Relaxed),
            None => _ = self.bytes.fetch_sub(before - after, Ordering::Relaxed),
        }
    }

    /// Frees memory of a map that has become mostly empty.
    fn shrink_map(&self, shard: &mut Shard) {
        if shard.capacity == 0 || shard.states.len() * 4 > shard.capacity {
            return;
        }
        shard.states.shrink_to(shard.states.len() * 2);
        let capacity = shard.states.capacity();
        self.count_bytes(map_bytes(shard.capacity), map_bytes(capacity));
        shard.capacity = capacity;
    }

    /// Drops the expired states of a shard; returns how many there were.
    fn sweep_shard(&self, shard: &mut Shard, now: Time) -> u64 {
        let before = shard.states.len();
        let mut freed = 0;
        shard.states.retain(|_, entry| {
            let stays = entry.full_at > now;
            freed += if stays { 0 } else { entry.heap_bytes };
            stays
        });
        let removed = (before - shard.states.len()) as u64;
        self.uncount(removed);
        self.count_bytes(freed, 0);
        self.shrink_map(shard);
        removed
    }

    /// Drops all expired states; returns how many there were.
    pub(super) fn sweep(&self, now: Time) -> u64 {
        if self.len() == 0 {
            return 0;
        }
        (0..SHARDS as u64).map(|shard| self.sweep_shard(&mut self.lock(shard), now)).sum()
    }

    /// Evicts the key of a sample that owes least; returns whether it did.
    pub(super) fn evict(&self) -> bool {
        loop {
            let removals = self.removals.load(Ordering::Acquire);
            let (least, seen) = self.sample();
            // As in the table: a walk over all shards may miss a key that was inserted behind it
            // while the ones ahead were evicted.
            if seen < EVICTION_SAMPLE && self.removals.load(Ordering::Acquire) != removals {
                continue;
            }
            let Some((number, key, rank)) = least else { return false };
            let mut shard = self.lock(number);
            // A key that was charged after the comparison owes more, and stays.
            let removed = shard.states.get(&key).is_some_and(|entry| entry.rank() <= rank);
            if removed {
                self.remove(&mut shard, key);
                self.removals.fetch_add(1, Ordering::Release);
            }
            return removed;
        }
    }

    /// Returns the shard, the key and the rank of the entry that owes least, and the number of entries
    /// compared.
    fn sample(&self) -> (Option<(u64, Fingerprint, BoxedRank)>, usize) {
        let (mut least, mut seen) = (None, 0);
        let start = self.cursor.load(Ordering::Relaxed);
        for step in 0..SHARDS as u64 {
            let number = start.wrapping_add(step) % SHARDS as u64;
            self.cursor.fetch_add(1, Ordering::Relaxed);
            for (key, entry) in self.lock(number).states.iter().take(EVICTION_SAMPLE) {
                seen += 1;
                let rank = entry.rank();
                if least.is_none_or(|(_, _, best): (u64, Fingerprint, BoxedRank)| rank < best) {
                    least = Some((number, *key, rank));
                }
            }
            if seen >= EVICTION_SAMPLE {
                break;
            }
        }
        (least, seen)
    }
}

/// Returns the bytes of a map with room for `capacity` entries.
fn map_bytes(capacity: usize) -> u64 {
    if capacity == 0 {
        return 0;
    }
    // The map is at most 7/8 full, and has a byte for every entry and for 16 more.
    let slots = (capacity * 8).div_ceil(7).next_power_of_two();
    let entry = size_of::<(Fingerprint, BoxedEntry)>() + 1;
    (slots * entry + 16) as u64 + ALLOCATION_OVERHEAD
}

/// A hasher that returns half of a fingerprint, which is a hash already.
#[derive(Clone, Copy, Debug, Default)]
struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) {
        // An array of two words arrives as one run of bytes. The second half selects the
        // position in the map, since the first has selected the shard.
        let half = bytes.rchunks(8).next().and_then(|half| half.try_into().ok());
        self.0 = half.map_or(0, u64::from_ne_bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
