//! The entries of tables in a snapshot: line (2 bytes), tag and nibble (8), words of state (8 each).

use std::io::{self, Write};

use tollgate_core::Time;

use super::block::{Block, BlockWriter};
use super::error::SnapshotError;
use crate::memory::MemoryStore;
use crate::memory::line::SlotEntry;
use crate::memory::slot_class::SlotClass;
use crate::memory::table::Table;
use crate::memory::table_hash::{FIRST_BITS, TableHash};

/// The number of bits for the part of a state that shares a word with the tag.
const NIBBLE_BITS: u32 = 4;

impl<const W: usize, const N: usize> Table<W, N> {
    /// Writes the entries that have not expired, locking one line at a time.
    ///
    /// A line that is split meanwhile moves entries to the last line, which is still to come. So no
    /// entry is missed, and one that is written twice is newer the second time.
    pub(super) fn write_entries<T: Write>(
        &self,
        blocks: &mut BlockWriter<'_, T>,
        now: u64,
    ) -> io::Result<()> {
        if self.len() == 0 {
            return Ok(()); // The table may have no memory yet.
        }
        let mut number = 0;
        while number < self.line_count() {
            if !self.looks_empty(number) {
                let line = self.lock_line(number);
                for slot in line.slots() {
                    let entry = slot.entry::<N>();
                    if entry.full_at() > now {
                        blocks.add(|bytes| encode(number, &entry, bytes));
                    }
                }
                drop(line);
                blocks.flush_if_full()?;
            }
            number += 1;
        }
        Ok(())
    }
}

fn encode<const N: usize>(line: u64, entry: &SlotEntry<N>, bytes: &mut Vec<u8>) {
    let line = (line & ((1 << FIRST_BITS) - 1)) as u16;
    let head = entry.tag << NIBBLE_BITS | u64::from(entry.nibble);
    bytes.extend_from_slice(&line.to_le_bytes());
    bytes.extend_from_slice(&head.to_le_bytes());
    for word in entry.words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// Adds the entries of a block to a table, without those that have expired.
pub(super) fn restore<const W: usize, const N: usize>(
    store: &MemoryStore,
    table: &Table<W, N>,
    class: SlotClass,
    mut block: Block<'_>,
    now: Time,
) -> Result<(), SnapshotError> {
    for _ in 0..block.count {
        let line = u16::from_le_bytes(block.take()?);
        let head = block.word()?;
        let mut words = [0; N];
        for word in &mut words {
            *word = block.word()?;
        }
        let (tag, nibble) = (head >> NIBBLE_BITS, (head & ((1 << NIBBLE_BITS) - 1)) as u8);
        let hash = TableHash::from_entry(line.into(), tag)
            .ok_or(SnapshotError::Corrupt("an entry has no fingerprint"))?;
        let entry = SlotEntry { tag, nibble, words };
        if entry.full_at() > now.as_nanos() {
            put(store, table, class, hash, &entry, now.as_nanos());
        }
    }
    block.end()
}

/// Writes an entry, in place of an earlier one of the same key.
fn put<const W: usize, const N: usize>(
    store: &MemoryStore,
    table: &Table<W, N>,
    class: SlotClass,
    hash: TableHash,
    entry: &SlotEntry<N>,
    now: u64,
) {
    if let (_line, Some(slot)) = table.prefetch(hash).lock_and_find() {
        return slot.set(entry);
    }
    while !store.reserve(class) {
        store.evict_for(1, entry.words[0]);
        store.free_memory(class, entry.words[0]);
    }
    let (line, _) = table.prefetch(hash).lock_and_find();
    line.insert(entry, now);
    drop(line);
    table.maintain(now, || store.may_grow(class));
}
