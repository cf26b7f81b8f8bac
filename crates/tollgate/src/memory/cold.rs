//! The room for states on the heap: logs, slots, leases, warm-ups.
//!
//! These are rare and their cost is their own, so a plain sharded map will do. It is keyed by
//! the whole 128-bit fingerprint.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use tollgate_core::Time;

use crate::account::State;
use crate::key::Fingerprint;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// So many that growing one of them is quick even among ten million keys.
const SHARDS: usize = if cfg!(shuttle) { 2 } else { 1024 };
/// Entries an eviction looks at.
const EVICTION_SAMPLE: usize = 16;
/// A shard smaller than this is not swept.
const SWEEP_FROM: usize = 64;

#[derive(Debug)]
pub(super) struct Cold {
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    keys: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    states: HashMap<Fingerprint, Kept, BuildHasherDefault<AlreadyHashed>>,
    /// The size at which it pays to look for what may be forgotten.
    sweep_at: usize,
}

#[derive(Debug)]
pub(super) struct Kept {
    pub(super) state: State,
    pub(super) full_at: Time,
    /// How much is spent, 15 being everything.
    pub(super) level: u8,
}

impl Cold {
    pub(super) fn new() -> Cold {
        Cold { shards: OnceLock::new(), keys: AtomicU64::new(0) }
    }

    pub(super) fn len(&self) -> u64 {
        self.keys.load(Ordering::Relaxed)
    }

    /// The number of the shard a fingerprint belongs to, to lock several in order.
    pub(super) fn shard_of(fingerprint: Fingerprint) -> u64 {
        fingerprint[0] % SHARDS as u64
    }

    pub(super) fn lock(&self, shard: u64) -> MutexGuard<'_, Shard> {
        let shards =
            self.shards.get_or_init(|| (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect());
        shards[shard as usize].lock()
    }

    pub(super) fn has(shard: &Shard, fingerprint: Fingerprint, now: u64) -> bool {
        shard.states.get(&fingerprint).is_some_and(|kept| kept.full_at.as_nanos() > now)
    }

    /// The state kept, left in the shard's place as [`State::Nothing`] until it is put back.
    pub(super) fn take(shard: &mut Shard, fingerprint: Fingerprint, now: u64) -> Option<State> {
        let kept = shard.states.get_mut(&fingerprint)?;
        if kept.full_at.as_nanos() <= now {
            return None;
        }
        Some(std::mem::replace(&mut kept.state, State::Nothing))
    }

    /// Keeps a state, unless it equals none. Returns whether it is the first of its key.
    pub(super) fn put(
        &self,
        shard: &mut Shard,
        fingerprint: Fingerprint,
        kept: Kept,
        now: Time,
    ) -> bool {
        if kept.full_at <= now {
            self.remove(shard, fingerprint);
            return false;
        }
        let first = shard.states.insert(fingerprint, kept).is_none();
        if first {
            self.keys.fetch_add(1, Ordering::Relaxed);
            if shard.states.len() > shard.sweep_at.max(SWEEP_FROM) {
                self.sweep_shard(shard, now);
                shard.sweep_at = shard.states.len() * 2;
            }
        }
        first
    }

    pub(super) fn remove(&self, shard: &mut Shard, fingerprint: Fingerprint) {
        if shard.states.remove(&fingerprint).is_some() {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn sweep_shard(&self, shard: &mut Shard, now: Time) -> u64 {
        let before = shard.states.len();
        shard.states.retain(|_, kept| kept.full_at > now);
        let gone = (before - shard.states.len()) as u64;
        self.keys.fetch_sub(gone, Ordering::Relaxed);
        gone
    }

    /// Drops everything that may be forgotten.
    pub(super) fn sweep(&self, now: Time) -> u64 {
        if self.len() == 0 {
            return 0;
        }
        (0..SHARDS as u64).map(|shard| self.sweep_shard(&mut self.lock(shard), now)).sum()
    }

    /// Makes the entry that owes least of a sample give way.
    pub(super) fn evict(&self, near: Fingerprint) -> bool {
        let (mut least, mut seen) = (None, 0);
        for step in 0..SHARDS as u64 {
            let number = (Cold::shard_of(near) + step) % SHARDS as u64;
            for (key, kept) in self.lock(number).states.iter().take(EVICTION_SAMPLE) {
                seen += 1;
                let rank = (kept.level, kept.full_at);
                if least.is_none_or(|(_, _, best): (u64, Fingerprint, (u8, Time))| rank < best) {
                    least = Some((number, *key, rank));
                }
            }
            if seen >= EVICTION_SAMPLE {
                break;
            }
        }
        let Some((number, key, _)) = least else { return false };
        self.remove(&mut self.lock(number), key);
        true
    }
}

/// Fingerprints are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct AlreadyHashed(u64);

impl Hasher for AlreadyHashed {
    fn write(&mut self, bytes: &[u8]) {
        // An array of two words arrives as one run of bytes; its second half picks the slot,
        // since its first picked the shard.
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
