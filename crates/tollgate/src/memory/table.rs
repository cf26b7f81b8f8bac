//! The key table: fingerprints to states, one cache line a decision.
//!
//! *Linear hashing.* The table grows by one line at a time: line `n - 2^level` is split in two,
//! and half of its entries move to the new line `n`. No insert ever pays for more than a few
//! lines, memory per key stays flat at any size, and nothing is ever copied as a whole. Lines
//! that run full before their turn chain overflow lines, which their lock covers.
//!
//! *Fingerprints.* Keys are not kept. 14 bits of a key's keyed hash place it in the smallest
//! table, 54 more are the tag, of which the low ones place it as the table grows. Two of ten
//! million live keys share those 68 bits with a probability of 2 in 10 million.
//!
//! *Forgetting.* An entry whose time has come equals an absent one. It is dropped when its slot
//! is wanted, when its line is split, or when the sweep comes by, which happens a line at a time
//! and only while the table would otherwise have to grow.

use super::chain::{Chain, Entries, Links, Locked, Rank, Slot};
use super::line::{self, Lock, MAX_OVERFLOW, SLOTS, Words};
use super::place::{FIRST_BITS, Place};
use super::slab::Slab;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Lines in the first segment of memory, as powers of two. The system hands out its pages as
/// they are touched, so a small table does not pay for a large segment.
const SEGMENT_BITS: u32 = if cfg!(shuttle) { FIRST_BITS } else { 20 };
const OVERFLOW_SEGMENT_BITS: u32 = if cfg!(shuttle) { 1 } else { 16 };
/// The table grows when it holds more than 5 keys for every 2 lines.
const KEYS_PER_2_LINES: u64 = 5;
/// Entries an eviction looks at for one that owes no more than the newcomer.
const EVICTION_SAMPLE: usize = 16;

/// A counter on a cache line of its own, so that writers of one do not slow readers of another.
#[derive(Debug)]
#[repr(align(64))]
struct Counter(AtomicU64);

/// Fingerprints to states of `N` words; `W` is the words of a line: `4 * (N + 1)`.
#[derive(Debug)]
pub(crate) struct Table<const W: usize, const N: usize> {
    /// Lines in use.
    lines: Counter,
    /// Keys held, including those whose time has come but that were not swept yet.
    keys: Counter,
    cursor: Counter,
    growing: AtomicBool,
    slab: Slab<W, SEGMENT_BITS>,
    overflow: Slab<W, OVERFLOW_SEGMENT_BITS>,
    spare: Mutex<Spare>,
}

/// Overflow lines that are free.
#[derive(Debug, Default)]
struct Spare {
    returned: Vec<u64>,
    never_used: u64,
}

/// On the way to a key's line, which is not locked yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Approach<'a, const W: usize, const N: usize> {
    table: &'a Table<W, N>,
    place: Place,
    /// The number of lines by which the line was found.
    lines: u64,
    words: &'a Words<W>,
}

impl<const W: usize, const N: usize> Table<W, N> {
    pub(super) fn new() -> Table<W, N> {
        const { assert!(W == SLOTS * (N + 1)) };
        Table {
            lines: Counter(AtomicU64::new(1 << FIRST_BITS)),
            keys: Counter(AtomicU64::new(0)),
            cursor: Counter(AtomicU64::new(0)),
            growing: AtomicBool::new(false),
            slab: Slab::new(),
            overflow: Slab::new(),
            spare: Mutex::new(Spare::default()),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.keys.0.load(Ordering::Relaxed)
    }

    /// The number of the line `place` belongs to at this moment, to lock several in order.
    #[inline]
    pub(super) fn line_of(&self, place: Place) -> u64 {
        place.line(self.lines.0.load(Ordering::Acquire))
    }

    /// The same, and starts to bring the line into the cache.
    #[inline]
    pub(super) fn touch(&self, place: Place) -> u64 {
        let number = self.line_of(place);
        self.slab.line(number)[0].load(Ordering::Relaxed);
        number
    }

    /// Finds the line `place` belongs to and starts to bring it into the cache.
    #[inline(always)]
    pub(super) fn approach(&self, place: Place) -> Approach<'_, W, N> {
        let lines = self.lines.0.load(Ordering::Acquire);
        let words = self.slab.line(place.line(lines));
        // An atomic load is not optimised away, and nothing waits for its result.
        words[0].load(Ordering::Relaxed);
        Approach { table: self, place, lines, words }
    }

    /// The table grew on the way.
    #[cold]
    fn approach_again(&self, place: Place) -> (Locked<'_, W, N>, Option<Slot<'_, W>>) {
        self.approach(place).lock_and_find()
    }

    /// Locks the line of that number.
    #[inline(always)]
    pub(super) fn lock_line(&self, number: u64) -> Locked<'_, W, N> {
        Locked::new(self, self.slab.line(number))
    }

    /// The same, the lock apart from what it covers.
    #[inline]
    pub(super) fn lock_apart(&self, number: u64) -> (Lock<'_>, Chain<'_, W, N>) {
        let words = self.slab.line(number);
        (Lock::of(words), Chain { table: self, words })
    }

    /// Keeps the table in shape after an insert: sweeps a little, or else grows by a line. To
    /// be called with no line locked.
    #[inline]
    pub(super) fn tend(&self, now: u64) {
        if self.crowded() {
            self.make_room(now);
        }
    }

    #[inline]
    fn crowded(&self) -> bool {
        self.len() * 2 > self.lines.0.load(Ordering::Relaxed) * KEYS_PER_2_LINES
    }

    #[cold]
    fn make_room(&self, now: u64) {
        if self.sweep_lines(2, now) == 0 && self.crowded() {
            self.split(now);
        }
    }

    /// Drops what may be forgotten from the next `count` lines; returns how many keys went.
    pub(super) fn sweep_lines(&self, count: u64, now: u64) -> u64 {
        let lines = self.lines.0.load(Ordering::Acquire);
        let start = self.cursor.0.fetch_add(count, Ordering::Relaxed);
        (start..start.saturating_add(count))
            .map(|number| self.lock_line(number % lines).forget_full(now))
            .sum()
    }

    /// Drops everything that may be forgotten.
    pub(super) fn sweep(&self, now: u64) -> u64 {
        self.sweep_lines(self.lines.0.load(Ordering::Acquire), now)
    }

    /// Splits the next line in turn. One thread at a time; the others need not wait.
    fn split(&self, now: u64) {
        if self.growing.swap(true, Ordering::Acquire) {
            return;
        }
        let lines = self.lines.0.load(Ordering::Acquire);
        let level = lines.ilog2();
        let old = self.lock_line(lines - (1 << level));
        let new = self.lock_line(lines);
        let (entries, mut links) = old.take(now);
        let (moved, kept): (Entries<N>, Entries<N>) =
            entries.into_iter().partition(|entry| entry.tag >> (level - FIRST_BITS) & 1 == 1);
        old.put(&kept, &mut links);
        new.put(&moved, &mut links);
        self.give_back(links);
        self.lines.0.store(lines + 1, Ordering::Release);
        drop((old, new));
        self.growing.store(false, Ordering::Release);
    }

    /// Makes one entry give way: the first found that owes no more than `owes`, or the one that
    /// owes least among those looked at. Returns whether there was any.
    pub(super) fn evict(&self, owes: u64) -> bool {
        let lines = self.lines.0.load(Ordering::Acquire);
        let start = self.cursor.0.load(Ordering::Relaxed);
        let owes = (0, owes);
        let (mut least, mut seen): (Option<(u64, Rank)>, usize) = (None, 0);
        // A sparse table is walked on until enough was seen to compare.
        for step in 0..lines {
            let number = start.wrapping_add(step) % lines;
            self.cursor.0.fetch_add(1, Ordering::Relaxed);
            let line = self.lock_line(number);
            let Some(rank) = line.least() else { continue };
            if rank <= owes {
                return line.remove_least(owes);
            }
            seen += line.slots().count();
            if least.is_none_or(|(_, best)| rank < best) {
                least = Some((number, rank));
            }
            if seen >= EVICTION_SAMPLE {
                break;
            }
        }
        if seen < EVICTION_SAMPLE && self.lines.0.load(Ordering::Acquire) != lines {
            return self.evict(owes.1); // Those not seen may have moved.
        }
        // Whoever was charged meanwhile is not the one that was chosen.
        least.is_some_and(|(number, owes)| self.lock_line(number).remove_least(owes))
    }

    pub(super) fn count(&self, more: u64) {
        self.keys.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn uncount(&self, fewer: u64) {
        self.keys.0.fetch_sub(fewer, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn overflow_line(&self, number: u64) -> &Words<W> {
        self.overflow.line(number)
    }

    pub(super) fn give_back(&self, links: Links) {
        if !links.is_empty() {
            self.spare.lock().returned.extend(links);
        }
    }

    pub(super) fn new_overflow_line(&self) -> Option<u64> {
        let mut spare = self.spare.lock();
        spare.returned.pop().or_else(|| {
            (spare.never_used < MAX_OVERFLOW).then(|| {
                spare.never_used += 1;
                spare.never_used - 1
            })
        })
    }
}

impl<'a, const W: usize, const N: usize> Approach<'a, W, N> {
    #[inline]
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Locks the line and finds the slot. It looks for the slot before it has the lock, while
    /// the processor is busy getting it, and afterwards only makes sure.
    #[inline(always)]
    pub(super) fn lock_and_find(self) -> (Locked<'a, W, N>, Option<Slot<'a, W>>) {
        let Approach { table, place, lines, words } = self;
        let guess = line::find(words, place.tag);
        let locked = Locked::new(table, words);
        // A split publishes the new number of lines before it unlocks, so this is the truth.
        let lines_now = table.lines.0.load(Ordering::Relaxed);
        if lines_now != lines && place.line(lines_now) != place.line(lines) {
            drop(locked);
            return table.approach_again(place);
        }
        let slot = match guess {
            Some(index) if line::holds(words, index, place.tag) => Some(Slot { words, index }),
            _ => locked.find(place),
        };
        (locked, slot)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
