//! The entries of boxed slots in a snapshot.
//!
//! An entry is its fingerprint (16 bytes), the time at which it is full (8), its spent level (1), its
//! algorithm (1), the number of words of its state (4), and these words (8 each).

use std::io::{self, Write};

use tollgate_core::{Time, WarmUpState};

use super::block::{Block, BlockWriter};
use super::error::SnapshotError;
use crate::account::State;
use crate::key::Fingerprint;
use crate::memory::MemoryStore;
use crate::memory::boxed::{BoxedEntry, BoxedStates};
use crate::memory::slot_class::SlotClass;

const SLIDING_SLOTS: u8 = 1;
const SLIDING_LOG: u8 = 2;
const WARM_UP: u8 = 3;

/// The number of entries that are written while a shard is locked.
const ENTRIES_PER_LOCK: usize = 16;

impl BoxedStates {
    /// Writes the states that have not expired, locking a shard for a few entries at a time.
    pub(super) fn write_entries<T: Write>(
        &self,
        blocks: &mut BlockWriter<'_, T>,
        now: Time,
    ) -> io::Result<()> {
        if self.len() == 0 {
            return Ok(()); // The shards may have no memory yet.
        }
        for number in 0..BoxedStates::shard_count() {
            let keys = self.lock(number).keys();
            for keys in keys.chunks(ENTRIES_PER_LOCK) {
                let shard = self.lock(number);
                for key in keys {
                    if let Some(entry) = shard.live(*key, now) {
                        write(*key, entry, blocks);
                    }
                }
                drop(shard);
                blocks.flush_if_full()?;
            }
        }
        Ok(())
    }
}

fn write<T: Write>(key: Fingerprint, entry: &BoxedEntry, blocks: &mut BlockWriter<'_, T>) {
    let Some((algorithm, words)) = state_words(&entry.state) else { return };
    blocks.add(|bytes| {
        for word in [key[0], key[1], entry.full_at.as_nanos()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[entry.level, algorithm]);
        bytes.extend_from_slice(&(words.len() as u32).to_le_bytes());
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    });
}

/// Returns the words of a state; none for permits, which are not saved.
fn state_words(state: &State) -> Option<(u8, Vec<u64>)> {
    match state {
        State::SlidingSlots(log) | State::SlidingLog(log) => {
            let words = log.entries().flat_map(|(at, cost)| [at.as_nanos(), cost]).collect();
            let is_log = matches!(state, State::SlidingLog(_));
            Some((if is_log { SLIDING_LOG } else { SLIDING_SLOTS }, words))
        }
        State::WarmUp(state) => {
            let (stored, next_free) = state.parts();
            Some((WARM_UP, vec![stored.0, stored.1, next_free.0, next_free.1]))
        }
        _ => None,
    }
}

fn state(algorithm: u8, words: &[u64]) -> Option<State> {
    let log = || words.chunks_exact(2).map(|entry| (Time::from_nanos(entry[0]), entry[1]));
    Some(match (algorithm, words) {
        (SLIDING_SLOTS, _) => State::SlidingSlots(Box::new(log().collect())),
        (SLIDING_LOG, _) => State::SlidingLog(Box::new(log().collect())),
        (WARM_UP, &[stored, stored_part, free, free_part]) => {
            State::WarmUp(WarmUpState::from_parts((stored, stored_part), (free, free_part)))
        }
        _ => return None,
    })
}

/// Adds the entries of a block to a store, without those that have expired.
pub(super) fn restore(
    store: &MemoryStore,
    mut block: Block<'_>,
    now: Time,
) -> Result<(), SnapshotError> {
    for _ in 0..block.count {
        let key = [block.word()?, block.word()?];
        let full_at = Time::from_nanos(block.word()?);
        let [level, algorithm] = block.take()?;
        let length = u32::from_le_bytes(block.take()?);
        // Collecting stops at the end of the block, so a wrong length allocates nothing.
        let words: Vec<u64> = (0..length).map_while(|_| block.word().ok()).collect();
        let state = state(algorithm, &words).filter(|_| words.len() == length as usize);
        let state = state.ok_or(SnapshotError::Corrupt("an entry has no state"))?;
        put(store, key, BoxedEntry::new(state, full_at, level), now);
    }
    block.end()
}

/// Writes an entry, in place of an earlier one of the same key.
fn put(store: &MemoryStore, key: Fingerprint, entry: BoxedEntry, now: Time) {
    while !store.reserve(SlotClass::Boxed) {
        store.evict_for(1, 0);
        store.free_memory(SlotClass::Boxed, 0);
    }
    let mut shard = store.boxed.lock(BoxedStates::shard_number(key));
    if !store.boxed.put(&mut shard, key, entry, true, now) {
        store.cancel_reservation(SlotClass::Boxed);
    }
    drop(shard);
    store.trim_boxed();
}
