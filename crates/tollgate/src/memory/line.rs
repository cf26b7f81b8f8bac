//! One line of the table: four slots, a lock and a link, in the cache line they share.
//!
//! A slot is a tag word and `N` words of state. The tag word holds 54 bits of the key's
//! fingerprint, 4 bits that belong to the state, and 6 bits of the line's header. The four
//! pieces of header make up 24 bits: a lock, and the number of an overflow line (plus one).
//! So the lock, the tags and (for a meter) the states arrive with one cache miss.
//!
//! Whoever holds a line's lock owns its whole chain of overflow lines.

use crate::sync::{AtomicU64, Ordering, spin_loop, yield_now};

pub(super) const SLOTS: usize = 4;
/// Bits of a fingerprint that are kept in a slot.
pub(super) const TAG_BITS: u32 = 54;
/// The most overflow lines a header can link to.
pub(super) const MAX_OVERFLOW: u64 = (1 << 23) - 1;

const TAG_SHIFT: u32 = 10;
const NIBBLE_SHIFT: u32 = 6;
const HEADER: u64 = (1 << NIBBLE_SHIFT) - 1;
const LOCKED: u64 = 1;
/// How often a waiter spins at a time before it lets others run.
const MAX_SPINS: u32 = 64;

/// What a slot holds for one key. The first word is the time at which the state equals absent.
/// Of a state of one word the nibble is a fraction of a nanosecond on top; of a longer one it
/// says how much is spent, 15 being everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<const N: usize> {
    pub(super) tag: u64,
    pub(super) nibble: u8,
    pub(super) words: [u64; N],
}

impl<const N: usize> Entry<N> {
    /// From when on the entry may be forgotten.
    #[inline]
    pub(super) fn full_at(&self) -> u64 {
        self.words[0].saturating_add(u64::from(N == 1 && self.nibble != 0))
    }

    /// How much is owed, to be compared: what frees itself soonest is least, but of a window
    /// its end says nothing about how much of it is spent.
    #[inline]
    pub(super) fn rank(&self) -> (u8, u64) {
        (if N == 1 { 0 } else { self.nibble }, self.full_at())
    }
}

/// The words of a line. Every access is atomic, so the module needs no `unsafe`; under the lock
/// the relaxed ones cost nothing.
pub(super) type Words<const W: usize> = [AtomicU64; W];

/// The lock of a line, held until this is dropped.
#[derive(Debug)]
pub(super) struct Lock<'a>(&'a AtomicU64);

impl<'a> Lock<'a> {
    /// Takes it.
    #[inline(always)]
    pub(super) fn of<const W: usize>(words: &'a Words<W>) -> Lock<'a> {
        if words[0].fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            wait_for_lock(&words[0]);
        }
        Lock(&words[0])
    }
}

impl Drop for Lock<'_> {
    /// Gives the lock back and makes what was written visible.
    #[inline]
    fn drop(&mut self) {
        let head = self.0.load(Ordering::Relaxed);
        self.0.store(head & !LOCKED, Ordering::Release);
    }
}

/// Waits longer each time: whoever has the line gets on best if left alone, and may have been
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

/// The slot that holds `tag`. Looks at all of them, since which one it is cannot be predicted.
#[inline]
pub(super) fn find<const W: usize>(words: &Words<W>, tag: u64) -> Option<usize> {
    let found =
        (0..SLOTS).fold(0_u32, |found, slot| found | u32::from(holds(words, slot, tag)) << slot);
    (found != 0).then(|| found.trailing_zeros() as usize % SLOTS)
}

/// Whether `slot` holds `tag`.
#[inline]
pub(super) fn holds<const W: usize>(words: &Words<W>, slot: usize, tag: u64) -> bool {
    words[slot].load(Ordering::Relaxed) >> TAG_SHIFT == tag
}

/// A slot that holds nothing.
#[inline]
pub(super) fn find_empty<const W: usize>(words: &Words<W>) -> Option<usize> {
    find(words, 0)
}

#[inline]
pub(super) fn read<const W: usize, const N: usize>(words: &Words<W>, slot: usize) -> Entry<N> {
    let head = words[slot].load(Ordering::Relaxed);
    Entry {
        tag: head >> TAG_SHIFT,
        nibble: ((head >> NIBBLE_SHIFT) & 0xf) as u8,
        words: std::array::from_fn(|i| words[SLOTS + slot * N + i].load(Ordering::Relaxed)),
    }
}

#[inline]
pub(super) fn write<const W: usize, const N: usize>(
    words: &Words<W>,
    slot: usize,
    entry: &Entry<N>,
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

/// Empties a slot, keeping the header.
#[inline]
pub(super) fn clear<const W: usize>(words: &Words<W>, slot: usize) {
    let header = words[slot].load(Ordering::Relaxed) & HEADER;
    words[slot].store(header, Ordering::Relaxed);
}

/// The overflow line this one links to.
#[inline]
pub(super) fn link<const W: usize>(words: &Words<W>) -> Option<u64> {
    let piece = |slot: usize| words[slot].load(Ordering::Relaxed) & HEADER;
    let packed =
        (1..SLOTS).fold(piece(0) >> 1, |packed, slot| packed << NIBBLE_SHIFT | piece(slot));
    packed.checked_sub(1)
}

/// Links this line to an overflow line, or to none.
pub(super) fn set_link<const W: usize>(words: &Words<W>, to: Option<u64>) {
    let mut packed = to.map_or(0, |number| number + 1);
    for slot in (1..SLOTS).rev() {
        let kept = words[slot].load(Ordering::Relaxed) & !HEADER;
        words[slot].store(kept | (packed & HEADER), Ordering::Relaxed);
        packed >>= NIBBLE_SHIFT;
    }
    let kept = words[0].load(Ordering::Relaxed) & (!HEADER | LOCKED);
    words[0].store(kept | packed << 1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> Words<8> {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn header_and_slots_do_not_disturb_each_other() {
        let line = line();
        let lock = Lock::of(&line);
        for (slot, to) in [None, Some(0), Some(1), Some(MAX_OVERFLOW - 1)].into_iter().enumerate() {
            let entry = Entry { tag: (1 << TAG_BITS) - 1, nibble: 15, words: [u64::MAX] };
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
