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

use smallvec::SmallVec;

use super::line::{self, Entry, MAX_OVERFLOW, SLOTS, TAG_BITS, Words};
use super::slab::Slab;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// Lines of the smallest table, as a power of two.
#[cfg(not(shuttle))]
const FIRST_BITS: u32 = 14;
/// Two lines: the model checker is to see the table grow after a handful of keys.
#[cfg(shuttle)]
const FIRST_BITS: u32 = 1;
/// Lines in the first segment of memory, as powers of two. The system hands out its pages as
/// they are touched, so a small table does not pay for a large segment.
const SEGMENT_BITS: u32 = if cfg!(shuttle) { FIRST_BITS } else { 20 };
const OVERFLOW_SEGMENT_BITS: u32 = if cfg!(shuttle) { 1 } else { 16 };
/// The table grows when it holds more than 5 keys for every 2 lines.
const KEYS_PER_2_LINES: u64 = 5;
/// Entries an eviction looks at for one that owes no more than the newcomer.
const EVICTION_SAMPLE: usize = 16;

/// Where a key's state lives: 14 bits that place it, 54 that tell it from its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    home: u64,
    tag: u64,
}

impl Place {
    /// Takes what the table needs of a 128-bit fingerprint.
    #[inline]
    pub(crate) fn of(fingerprint: [u64; 2]) -> Place {
        let home = fingerprint[0] & ((1 << FIRST_BITS) - 1);
        // Tag zero marks an empty slot.
        Place { home, tag: (fingerprint[1] >> (u64::BITS - TAG_BITS)).max(1) }
    }

    /// The line this key belongs to in a table of `lines`.
    #[inline]
    fn line(self, lines: u64) -> u64 {
        let bits = self.tag << FIRST_BITS | self.home;
        let level = lines.ilog2();
        let number = bits & ((2 << level) - 1);
        if number < lines { number } else { number & ((1 << level) - 1) }
    }
}

/// A counter on a cache line of its own, so that writers of one do not slow readers of another.
#[derive(Debug)]
#[repr(align(64))]
struct Counter(AtomicU64);

type Entries<const N: usize> = SmallVec<[Entry<N>; 16]>;
/// How much an entry owes, to be compared.
type Rank = (u8, u64);
/// Numbers of overflow lines.
type Links = SmallVec<[u64; 8]>;

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

/// A locked line and its chain.
#[derive(Debug)]
pub(super) struct Locked<'a, const W: usize, const N: usize> {
    table: &'a Table<W, N>,
    words: &'a Words<W>,
}

/// Where in a locked chain an entry was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a, const W: usize> {
    words: &'a Words<W>,
    index: usize,
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

    /// Locks line `number`, unless `place` has moved elsewhere meanwhile.
    #[inline]
    pub(super) fn lock_if_home(&self, number: u64, place: Place) -> Option<Locked<'_, W, N>> {
        let locked = self.lock_line(number);
        (self.line_of(place) == number).then_some(locked)
    }

    #[inline(always)]
    fn lock_line(&self, number: u64) -> Locked<'_, W, N> {
        let words = self.slab.line(number);
        line::lock(words);
        Locked { table: self, words }
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

    fn give_back(&self, links: Links) {
        if !links.is_empty() {
            self.spare.lock().returned.extend(links);
        }
    }

    fn new_overflow_line(&self) -> Option<u64> {
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
        line::lock(words);
        let locked = Locked { table, words };
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

impl<'a, const W: usize, const N: usize> Locked<'a, W, N> {
    /// The home line and the overflow lines behind it.
    #[inline]
    fn chain(&self) -> impl Iterator<Item = &'a Words<W>> + use<'a, W, N> {
        let table = self.table;
        std::iter::successors(Some(self.words), move |words| {
            line::link(words).map(|number| table.overflow.line(number))
        })
    }

    #[inline]
    pub(super) fn find(&self, place: Place) -> Option<Slot<'a, W>> {
        match line::find(self.words, place.tag) {
            Some(index) => Some(Slot { words: self.words, index }),
            None => self.find_further(place),
        }
    }

    fn find_further(&self, place: Place) -> Option<Slot<'a, W>> {
        self.chain()
            .skip(1)
            .find_map(|words| line::find(words, place.tag).map(|index| Slot { words, index }))
    }

    /// Adds an entry for a key that has none. Returns whether the table holds one key more.
    pub(super) fn insert(&self, place: Place, nibble: u8, words: [u64; N], now: u64) -> bool {
        let entry = Entry { tag: place.tag, nibble, words };
        let mut last = self.words;
        for words in self.chain() {
            let free = line::find_empty(words).map(|slot| (slot, true)).or_else(|| {
                let full = |&slot: &usize| line::read::<W, N>(words, slot).full_at() <= now;
                (0..SLOTS).find(full).map(|slot| (slot, false))
            });
            if let Some((slot, one_more)) = free {
                line::write(words, slot, &entry);
                self.table.keys.0.fetch_add(u64::from(one_more), Ordering::Relaxed);
                return one_more;
            }
            last = words;
        }
        let Some(number) = self.table.new_overflow_line() else {
            // No line left to chain: the entry that owes least gives way.
            self.remove_least((u8::MAX, u64::MAX));
            return self.insert(place, nibble, words, now);
        };
        let words = self.table.overflow.line(number);
        line::set_link(last, Some(number));
        line::write(words, 0, &entry);
        self.table.keys.0.fetch_add(1, Ordering::Relaxed);
        true
    }

    pub(super) fn remove(&self, slot: Slot<'a, W>) {
        line::clear(slot.words, slot.index);
        self.table.keys.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn slots(&self) -> impl Iterator<Item = Slot<'a, W>> + use<'a, W, N> {
        self.chain()
            .flat_map(|words| (0..SLOTS).map(move |index| Slot { words, index }))
            .filter(|slot| slot.entry::<N>().tag != 0)
    }

    /// Drops what may be forgotten, and overflow lines that are no longer needed.
    fn forget_full(&self, now: u64) -> u64 {
        if !self.slots().any(|slot| slot.entry::<N>().full_at() <= now) {
            return 0;
        }
        let before = self.slots().count();
        let (entries, mut links) = self.take(now);
        self.put(&entries, &mut links);
        self.table.give_back(links);
        (before - entries.len()) as u64
    }

    /// Empties the chain: what is still worth keeping, and the overflow lines it occupied.
    fn take(&self, now: u64) -> (Entries<N>, Links) {
        let (mut entries, mut forgotten) = (Entries::new(), 0);
        for slot in self.slots() {
            match slot.entry() {
                entry if entry.full_at() > now => entries.push(entry),
                _ => forgotten += 1,
            }
        }
        self.table.keys.0.fetch_sub(forgotten, Ordering::Relaxed);
        let links: Links = self.chain().filter_map(line::link).collect();
        for words in links.iter().map(|&n| self.table.overflow.line(n)).chain([self.words]) {
            (0..SLOTS).for_each(|slot| line::clear(words, slot));
            line::set_link(words, None);
        }
        (entries, links)
    }

    /// Fills an empty chain, taking overflow lines from `links`: what [`take`](Self::take) freed
    /// is enough to put it back, be it on one line or split over two.
    fn put(&self, entries: &[Entry<N>], links: &mut Links) {
        let mut words = self.words;
        for (i, entry) in entries.iter().enumerate() {
            if i > 0 && i % SLOTS == 0 {
                let number = links.pop().expect("as many lines as before");
                line::set_link(words, Some(number));
                words = self.table.overflow.line(number);
            }
            line::write(words, i % SLOTS, entry);
        }
    }

    /// What the entry that owes least owes.
    fn least(&self) -> Option<Rank> {
        self.slots().map(|slot| slot.entry::<N>().rank()).min()
    }

    /// Removes the entry that owes least, if that is no more than `at_most`.
    fn remove_least(&self, at_most: Rank) -> bool {
        let least = self.slots().min_by_key(|slot| slot.entry::<N>().rank());
        let least = least.filter(|slot| slot.entry::<N>().rank() <= at_most);
        least.inspect(|slot| self.remove(*slot)).is_some()
    }
}

impl<const W: usize, const N: usize> Drop for Locked<'_, W, N> {
    #[inline]
    fn drop(&mut self) {
        line::unlock(self.words);
    }
}

impl<'a, const W: usize> Slot<'a, W> {
    #[inline]
    pub(super) fn entry<const N: usize>(self) -> Entry<N> {
        line::read(self.words, self.index)
    }

    #[inline]
    pub(super) fn set<const N: usize>(self, entry: &Entry<N>) {
        line::write(self.words, self.index, entry);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
