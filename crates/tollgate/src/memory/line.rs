//! One line of the table: four slots, a lock and a link, in the cache line they share.
//!
//! A slot is a tag word and `N` words of state. The tag word holds 54 bits of the key's
//! fingerprint, 4 bits that belong to the state, and 6 bits of the line's header. The four
//! pieces of header make up 24 bits: a lock, and the number of an overflow line (plus one).
//! So the lock, the tags and (for a meter) the states arrive with one cache miss.
//!
//! The lock of a line covers its whole chain of overflow lines.

use crate::sync::{AtomicU64, Ordering, spin_loop, yield_now};

/// Slots in a line.
pub(super) const SLOTS: usize = 4;
/// Bits of a fingerprint that a slot stores.
pub(super) const TAG_BITS: u32 = 54;
/// The maximum number of overflow lines a header can link to.
pub(super) const MAX_OVERFLOW: u64 = (1 << 23) - 1;

const TAG_SHIFT: u32 = 10;
const NIBBLE_SHIFT: u32 = 6;
const HEADER: u64 = (1 << NIBBLE_SHIFT) - 1;
const LOCKED: u64 = 1;
/// The maximum number of spins between two attempts; beyond it the waiting thread yields.
const MAX_SPINS: u32 = 64;

/// The contents of a slot: the state of one key.
///
/// The first word is the time from which on the state equals an absent one. In a state of one
/// word the nibble is a fraction of a nanosecond on top; in a longer one it is the spent level,
/// 15 being everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotEntry<const N: usize> {
    pub(super) tag: u64,
    pub(super) nibble: u8,
    pub(super) words: [u64; N],
}

/// How much an entry owes: its spent level, then the time at which it is full again.
pub(super) type DebtRank = (u8, u64);

impl<const N: usize> SlotEntry<N> {
    /// The time from which on the entry may be dropped.
    #[inline]
    pub(super) fn full_at(&self) -> u64 {
        self.words[0].saturating_add(u64::from(N == 1 && self.nibble != 0))
    }

    /// Returns how much the key owes, for comparisons: the entry that is full soonest owes least.
    ///
    /// A window is full again at its end however little is spent, so its level comes first.
    #[inline]
    pub(super) fn rank(&self) -> DebtRank {
        (if N == 1 { 0 } else { self.nibble }, self.full_at())
    }
}

/// The words of a line.
///
/// Every access is atomic, so the module needs no `unsafe`; under the lock relaxed accesses
/// cost nothing.
pub(super) type LineWords<const W: usize> = [AtomicU64; W];

/// A guard that keeps a line locked until it is dropped.
#[derive(Debug)]
pub(super) struct LineLock<'a>(&'a AtomicU64);

impl<'a> LineLock<'a> {
    /// Locks a line, waiting while another thread has it locked.
    #[inline(always)]
    pub(super) fn acquire<const W: usize>(words: &'a LineWords<W>) -> LineLock<'a> {
        if words[0].fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            wait_for_lock(&words[0]);
        }
        LineLock(&words[0])
    }
}

impl Drop for LineLock<'_> {
    /// Unlocks the line and publishes what was written.
    #[inline]
    fn drop(&mut self) {
        let head = self.0.load(Ordering::Relaxed);
        self.0.store(head & !LOCKED, Ordering::Release);
    }
}

/// Spins until the line is unlocked, longer each time.
///
/// The thread that has the line finishes soonest if it is left alone, and it may have been
/// descheduled.
#[cold]
fn wait_for_lock(head: &AtomicU64) {
    let mut spins = 4;
    loop {
        (0..spins).for_each(|_| spin_loop());
        let free = head.load(Ordering::Relaxed) & LOCKED == 0;
        if free && head.fetch_or(LOCKED, Ordering::Acquire) & LOCKED == 0 {
            return;
        }
        if spins < MAX_SPINS { spins *= 2 } else { yield_now() }
    }
}

/// Returns the slot that holds `tag`.
///
/// Compares all slots without branching, since the matching one cannot be predicted.
#[inline]
pub(super) fn find<const W: usize>(words: &LineWords<W>, tag: u64) -> Option<usize> {
    let found =
        (0..SLOTS).fold(0_u32, |found, slot| found | u32::from(holds(words, slot, tag)) << slot);
    (found != 0).then(|| found.trailing_zeros() as usize % SLOTS)
}

/// Returns whether `slot` holds `tag`.
#[inline]
pub(super) fn holds<const W: usize>(words: &LineWords<W>, slot: usize, tag: u64) -> bool {
    words[slot].load(Ordering::Relaxed) >> TAG_SHIFT == tag
}

/// Returns an empty slot.
#[inline]
pub(super) fn find_empty<const W: usize>(words: &LineWords<W>) -> Option<usize> {
    find(words, 0)
}

/// Reads the entry of a slot.
#[inline]
pub(super) fn read<const W: usize, const N: usize>(
    words: &LineWords<W>,
    slot: usize,
) -> SlotEntry<N> {
    let head = words[slot].load(Ordering::Relaxed);
    SlotEntry {
        tag: head >> TAG_SHIFT,
        nibble: ((head >> NIBBLE_SHIFT) & 0xf) as u8,
        words: std::array::from_fn(|i| words[SLOTS + slot * N + i].load(Ordering::Relaxed)),
    }
}

/// Writes an entry into a slot.
#[inline]
pub(super) fn write<const W: usize, const N: usize>(
    words: &LineWords<W>,
    slot: usize,
    entry: &SlotEntry<N>,
) {
    for (i, word) in entry.words.iter().enumerate() {
        words[SLOTS + slot * N + i].store(*word, Ordering::Relaxed);
    }
    let head = words[slot].load(Ordering::Relaxed);
    let nibble = u64::from(entry.nibble & 0xf) << NIBBLE_SHIFT;
    let new = entry.tag << TAG_SHIFT | nibble | head & HEADER;
    if new != head {
        words[slot].store(new, Ordering::Relaxed);
    }
}

/// Empties a slot; its part of the header stays.
#[inline]
pub(super) fn clear<const W: usize>(words: &LineWords<W>, slot: usize) {
    let header = words[slot].load(Ordering::Relaxed) & HEADER;
    words[slot].store(header, Ordering::Relaxed);
}

/// Returns the number of the overflow line that this line links to.
#[inline]
pub(super) fn link<const W: usize>(words: &LineWords<W>) -> Option<u64> {
    let piece = |slot: usize| words[slot].load(Ordering::Relaxed) & HEADER;
    let packed =
        (1..SLOTS).fold(piece(0) >> 1, |packed, slot| packed << NIBBLE_SHIFT | piece(slot));
    packed.checked_sub(1)
}

/// Links a line to an overflow line, or to none.
pub(super) fn set_link<const W: usize>(words: &LineWords<W>, to: Option<u64>) {
    let mut packed = to.map_or(0, |number| number + 1);
    for slot in (1..SLOTS).rev() {
        let others = words[slot].load(Ordering::Relaxed) & !HEADER;
        words[slot].store(others | (packed & HEADER), Ordering::Relaxed);
        packed >>= NIBBLE_SHIFT;
    }
    let others = words[0].load(Ordering::Relaxed) & (!HEADER | LOCKED);
    words[0].store(others | packed << 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> LineWords<8> {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn writes_to_the_header_and_to_slots_are_independent() {
        let line = line();
        let lock = LineLock::acquire(&line);
        for (slot, to) in [None, Some(0), Some(1), Some(MAX_OVERFLOW - 1)].into_iter().enumerate() {
            let entry = SlotEntry { tag: (1 << TAG_BITS) - 1, nibble: 15, words: [u64::MAX] };
            write::<8, 1>(&line, slot, &entry);
            set_link(&line, to);
            assert_eq!(read::<8, 1>(&line, slot), entry);
            assert_eq!(link(&line), to);
            assert_eq!(line[0].load(Ordering::Relaxed) & LOCKED, LOCKED);
        }
        clear(&line, 0);
        assert_eq!(find_empty(&line), Some(0));
        assert_eq!(link(&line), Some(MAX_OVERFLOW - 1));
        drop(lock);
        assert_eq!(link(&line), Some(MAX_OVERFLOW - 1));
    }
}
