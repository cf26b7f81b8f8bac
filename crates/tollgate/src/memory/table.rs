//! The key table: fingerprints to states, one cache line a decision.
//!
//! *Linear hashing.* The table grows by one line at a time: line `n - 2^level` is split in two,
//! and half of its entries move to the new line `n`. No insert ever pays for more than a few
//! lines, memory per key stays flat at any size, and nothing is ever copied as a whole. Lines
//! that run full before their turn chain overflow lines, which their lock covers.
//!
//! *Fingerprints.* Keys are not stored. 14 bits of a key's hash select its line in the
//! smallest table. 54 more are the tag, whose low bits select the line as the table grows. Two of ten
//! million live keys share those 68 bits with a probability of 2 in 10 million.
//!
//! *Expiry.* An entry that is full again equals an absent one. It is dropped when its slot is
//! needed, when its line is split, or by the sweep, which proceeds a line at a time and only
//! while the table would otherwise have to grow.

use super::chain::{Chain, ChainEntries, LockedChain, OverflowLines, Slot};
use super::line::{self, DebtRank, LineLock, LineWords, MAX_OVERFLOW, SLOTS};
use super::segments::SegmentedLines;
use super::table_hash::{FIRST_BITS, TableHash};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Lines in the first segment of memory, as a power of two.
///
/// The system hands out pages as they are touched, so a small table does not pay for a large
/// segment.
const SEGMENT_BITS: u32 = if cfg!(shuttle) { FIRST_BITS } else { 20 };
/// Overflow lines in their first segment of memory, as a power of two.
const OVERFLOW_SEGMENT_BITS: u32 = if cfg!(shuttle) { 1 } else { 16 };
/// The number of keys for every 2 lines above which the table grows.
const KEYS_PER_2_LINES: u64 = 5;
/// Keys above that number, beyond which a table that may not grow accepts no new key.
///
/// Growth may lag behind inserts by a few keys, which is no reason to look at the memory.
const CROWDED_BY: u64 = if cfg!(shuttle) { 0 } else { 64 };
/// Entries that an eviction compares.
const EVICTION_SAMPLE: usize = 16;

/// A number on a cache line of its own, so that writers of one do not slow readers of another.
#[derive(Debug)]
#[repr(align(64))]
struct PaddedU64(AtomicU64);

/// A hash table of states of `N` words each, with lines of `W = 4 * (N + 1)` words.
#[derive(Debug)]
pub(crate) struct Table<const W: usize, const N: usize> {
    /// Lines in use.
    lines: PaddedU64,
    /// Keys in the table and keys reserved, including expired ones that were not swept yet.
    keys: PaddedU64,
    cursor: PaddedU64,
    growing: AtomicBool,
    /// How often an eviction has removed an entry.
    removals: AtomicU64,
    home: SegmentedLines<W, SEGMENT_BITS>,
    overflow: SegmentedLines<W, OVERFLOW_SEGMENT_BITS>,
    free: Mutex<FreeLines>,
    /// Overflow lines that were ever in use, whose memory is not returned.
    overflow_lines: AtomicU64,
}

/// Overflow lines that are not in use.
#[derive(Debug, Default)]
struct FreeLines {
    returned: Vec<u64>,
    never_used: u64,
}

/// The entries that an eviction has compared.
#[derive(Debug)]
struct EvictionSample {
    /// The line and the rank of the entry that owes least.
    least: Option<(u64, DebtRank)>,
    seen: usize,
}

/// The line of a key, on its way into the cache and not locked yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinePrefetch<'a, const W: usize, const N: usize> {
    table: &'a Table<W, N>,
    hash: TableHash,
    /// The number of lines by which the line was found.
    lines: u64,
    words: &'a LineWords<W>,
}

impl<const W: usize, const N: usize> Table<W, N> {
    pub(super) fn new() -> Table<W, N> {
        const { assert!(W == SLOTS * (N + 1)) };
        Table {
            lines: PaddedU64(AtomicU64::new(1 << FIRST_BITS)),
            keys: PaddedU64(AtomicU64::new(0)),
            cursor: PaddedU64(AtomicU64::new(0)),
            growing: AtomicBool::new(false),
            removals: AtomicU64::new(0),
            home: SegmentedLines::new(),
            overflow: SegmentedLines::new(),
            free: Mutex::new(FreeLines::default()),
            overflow_lines: AtomicU64::new(0),
        }
    }

    /// Returns the number of keys, including reserved ones.
    ///
    /// The order is sequential so that of two threads that reserve keys in different tables, at
    /// least one sees both.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.keys.0.load(Ordering::SeqCst)
    }

    /// Returns the number of lines at this moment. It only grows.
    pub(super) fn line_count(&self) -> u64 {
        self.lines.0.load(Ordering::Acquire)
    }

    /// Returns whether a line holds no entry. The line is not locked, so an insert may be missed.
    pub(super) fn looks_empty(&self, number: u64) -> bool {
        self.home.line(number)[..SLOTS].iter().all(|head| head.load(Ordering::Relaxed) == 0)
    }

    /// Returns the number of the line that `hash` belongs to at this moment.
    #[inline]
    pub(super) fn line_of(&self, hash: TableHash) -> u64 {
        hash.line(self.lines.0.load(Ordering::Acquire))
    }

    /// Starts to bring the line of `hash` into the cache; returns its number.
    #[inline]
    pub(super) fn prefetch_number(&self, hash: TableHash) -> u64 {
        let number = self.line_of(hash);
        self.home.line(number)[0].load(Ordering::Relaxed);
        number
    }

    /// Finds the line that `hash` belongs to and starts to bring it into the cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: TableHash) -> LinePrefetch<'_, W, N> {
        let lines = self.lines.0.load(Ordering::Acquire);
        let words = self.home.line(hash.line(lines));
        // An atomic load is not optimised away, and nothing waits for its result.
        words[0].load(Ordering::Relaxed);
        LinePrefetch { table: self, hash, lines, words }
    }

    /// Starts over because the table grew between the prefetch and the lock.
    #[cold]
    fn relock(&self, hash: TableHash) -> (LockedChain<'_, W, N>, Option<Slot<'_, W>>) {
        self.prefetch(hash).lock_and_find()
    }

    /// Locks the line of that number.
    #[inline(always)]
    pub(super) fn lock_line(&self, number: u64) -> LockedChain<'_, W, N> {
        LockedChain::new(self, self.home.line(number))
    }

    /// Locks the line of that number; returns the lock apart from the chain it covers.
    #[inline]
    pub(super) fn lock_chain(&self, number: u64) -> (LineLock<'_>, Chain<'_, W, N>) {
        let words = self.home.line(number);
        (LineLock::acquire(words), Chain { table: self, words })
    }

    /// Sweeps a little, or grows by a line if it `may_grow`, if that is due after an insert.
    ///
    /// The caller has no line locked.
    #[inline]
    pub(super) fn maintain(&self, now: u64, may_grow: impl FnOnce() -> bool) {
        if self.is_overloaded() {
            self.sweep_or_grow(now, may_grow);
        }
    }

    /// Returns the bytes of a line.
    pub(super) fn line_bytes(&self) -> u64 {
        (W * size_of::<u64>()) as u64
    }

    /// Returns the bytes of all lines that were used.
    pub(super) fn bytes(&self) -> u64 {
        if self.home.is_unused() {
            return 0;
        }
        let lines = self.lines.0.load(Ordering::Relaxed);
        (lines + self.overflow_lines.load(Ordering::Relaxed)) * self.line_bytes()
    }

    /// Returns the bytes that the table needs at its number of lines, once it is as full as they allow.
    ///
    /// An eighth to a fifth of the lines have an overflow line then, depending on which were split.
    pub(super) fn claim(&self) -> u64 {
        let lines = self.lines.0.load(Ordering::Relaxed);
        let overflow = self.overflow_lines.load(Ordering::Relaxed).max(lines / 4);
        (lines + overflow) * self.line_bytes()
    }

    /// Returns whether a number of keys is more than a table that may not grow accepts.
    #[inline]
    pub(super) fn is_crowded_by(&self, keys: u64) -> bool {
        let keys = keys.saturating_sub(CROWDED_BY);
        keys * 2 > self.lines.0.load(Ordering::Relaxed) * KEYS_PER_2_LINES
    }

    #[inline]
    fn is_overloaded(&self) -> bool {
        self.len() * 2 > self.lines.0.load(Ordering::Relaxed) * KEYS_PER_2_LINES
    }

    #[cold]
    fn sweep_or_grow(&self, now: u64, may_grow: impl FnOnce() -> bool) {
        if self.sweep_lines(2, now) == 0 && self.is_overloaded() && may_grow() {
            self.split(now);
        }
    }

    /// Drops expired entries from the next `count` lines; returns how many there were.
    pub(super) fn sweep_lines(&self, count: u64, now: u64) -> u64 {
        let lines = self.lines.0.load(Ordering::Acquire);
        let start = self.cursor.0.fetch_add(count, Ordering::Relaxed);
        (start..start.saturating_add(count))
            .map(|number| self.lock_line(number % lines).drop_expired(now))
            .sum()
    }

    /// Drops all expired entries; returns how many there were.
    pub(super) fn sweep(&self, now: u64) -> u64 {
        match self.home.is_unused() {
            true => 0,
            false => self.sweep_lines(self.lines.0.load(Ordering::Acquire), now),
        }
    }

    /// Splits the next line in turn. One thread does so at a time, and the others do not wait.
    fn split(&self, now: u64) {
        if self.growing.swap(true, Ordering::Acquire) {
            return;
        }
        let lines = self.lines.0.load(Ordering::Acquire);
        let level = lines.ilog2();
        let old = self.lock_line(lines - (1 << level));
        let new = self.lock_line(lines);
        let (entries, mut links) = old.take(now);
        let (moved, staying): (ChainEntries<N>, ChainEntries<N>) =
            entries.into_iter().partition(|entry| entry.tag >> (level - FIRST_BITS) & 1 == 1);
        old.put(&staying, &mut links);
        new.put(&moved, &mut links);
        self.free_overflow_lines(links);
        self.lines.0.store(lines + 1, Ordering::Release);
        drop((old, new));
        self.growing.store(false, Ordering::Release);
    }

    /// Evicts the first entry found that owes no more than `owes`, or the least of a sample.
    ///
    /// Returns whether an entry was evicted.
    pub(super) fn evict(&self, owes: u64) -> bool {
        loop {
            let lines = self.lines.0.load(Ordering::Acquire);
            let removals = self.removals.load(Ordering::Acquire);
            let sample = self.sample(lines, (0, owes));
            // A walk that found few entries has seen the whole table. It may have missed an entry
            // that was moved by a split, or inserted behind it while the ones ahead were evicted.
            let changed = || {
                self.lines.0.load(Ordering::Acquire) != lines
                    || self.removals.load(Ordering::Acquire) != removals
            };
            if sample.seen < EVICTION_SAMPLE && changed() {
                continue;
            }
            // An entry that was charged meanwhile owes more than the one that was chosen, and stays.
            return sample.least.is_some_and(|(number, rank)| self.remove_least(number, rank));
        }
    }

    /// Walks over lines until it finds an entry that owes no more than `owes`, or enough entries to
    /// compare.
    fn sample(&self, lines: u64, owes: DebtRank) -> EvictionSample {
        let start = self.cursor.0.load(Ordering::Relaxed);
        let mut sample = EvictionSample { least: None, seen: 0 };
        for step in 0..lines {
            let number = start.wrapping_add(step) % lines;
            self.cursor.0.fetch_add(1, Ordering::Relaxed);
            let line = self.lock_line(number);
            line.compact();
            let Some(rank) = line.least() else { continue };
            if rank <= owes {
                return EvictionSample { least: Some((number, rank)), seen: EVICTION_SAMPLE };
            }
            sample.seen += line.slots().count();
            if sample.least.is_none_or(|(_, best)| rank < best) {
                sample.least = Some((number, rank));
            }
            if sample.seen >= EVICTION_SAMPLE {
                break;
            }
        }
        sample
    }

    /// Removes the entry of a line that owes least, if that is no more than `at_most`.
    fn remove_least(&self, number: u64, at_most: DebtRank) -> bool {
        let line = self.lock_line(number);
        let removed = line.remove_least(at_most);
        // Counted before the line is unlocked, so that a walk that misses the entry sees the count.
        self.removals.fetch_add(removed.into(), Ordering::Release);
        removed
    }

    /// Counts one key more, ahead of its insertion; returns the number of keys with it.
    #[inline]
    pub(super) fn reserve(&self) -> u64 {
        self.keys.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Counts keys that were removed, or reserved and not inserted.
    pub(super) fn uncount(&self, fewer: u64) {
        self.keys.0.fetch_sub(fewer, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn overflow_line(&self, number: u64) -> &LineWords<W> {
        self.overflow.line(number)
    }

    pub(super) fn free_overflow_lines(&self, links: OverflowLines) {
        if !links.is_empty() {
            self.free.lock().returned.extend(links);
        }
    }

    pub(super) fn new_overflow_line(&self) -> Option<u64> {
        let mut free = self.free.lock();
        free.returned.pop().or_else(|| {
            (free.never_used < MAX_OVERFLOW).then(|| {
                free.never_used += 1;
                self.overflow_lines.store(free.never_used, Ordering::Relaxed);
                free.never_used - 1
            })
        })
    }
}

impl<'a, const W: usize, const N: usize> LinePrefetch<'a, W, N> {
    /// Returns the hash of the key.
    #[inline]
    pub(super) fn hash(&self) -> TableHash {
        self.hash
    }

    /// Locks the line and finds the slot.
    ///
    /// The search comes before the lock, to overlap with the wait for it; afterwards the result
    /// is only confirmed.
    #[inline(always)]
    pub(super) fn lock_and_find(self) -> (LockedChain<'a, W, N>, Option<Slot<'a, W>>) {
        let LinePrefetch { table, hash, lines, words } = self;
        let guess = line::find(words, hash.tag);
        let locked = LockedChain::new(table, words);
        // A split publishes the new number of lines before it unlocks, so this number is current.
        let lines_now = table.lines.0.load(Ordering::Relaxed);
        if lines_now != lines && hash.line(lines_now) != hash.line(lines) {
            drop(locked);
            return table.relock(hash);
        }
        let slot = match guess {
            Some(index) if line::holds(words, index, hash.tag) => Some(Slot { words, index }),
            _ => locked.find(hash),
        };
        (locked, slot)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
