//! A locked line with its overflow lines: finding, adding and dropping entries.

use std::ops::Deref;

use smallvec::SmallVec;

use super::line::{self, DebtRank, LineLock, LineWords, SLOTS, SlotEntry};
use super::table::Table;
use super::table_hash::TableHash;

/// Entries taken out of a chain.
pub(super) type ChainEntries<const N: usize> = SmallVec<[SlotEntry<N>; 16]>;
/// Numbers of overflow lines.
pub(super) type OverflowLines = SmallVec<[u64; 8]>;

/// A line and the overflow lines chained to it, to be touched only while the line is locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a, const W: usize, const N: usize> {
    pub(super) table: &'a Table<W, N>,
    pub(super) words: &'a LineWords<W>,
}

/// A chain that stays locked until this guard is dropped.
#[derive(Debug)]
pub(super) struct LockedChain<'a, const W: usize, const N: usize> {
    chain: Chain<'a, W, N>,
    _lock: LineLock<'a>,
}

/// The position of an entry in a locked chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a, const W: usize> {
    pub(super) words: &'a LineWords<W>,
    pub(super) index: usize,
}

impl<'a, const W: usize, const N: usize> LockedChain<'a, W, N> {
    /// Locks a line and with it its chain.
    #[inline(always)]
    pub(super) fn new(table: &'a Table<W, N>, words: &'a LineWords<W>) -> LockedChain<'a, W, N> {
        LockedChain { _lock: LineLock::acquire(words), chain: Chain { table, words } }
    }
}

impl<'a, const W: usize, const N: usize> Deref for LockedChain<'a, W, N> {
    type Target = Chain<'a, W, N>;

    #[inline]
    fn deref(&self) -> &Chain<'a, W, N> {
        &self.chain
    }
}

impl<'a, const W: usize, const N: usize> Chain<'a, W, N> {
    /// Iterates over the home line and the overflow lines behind it.
    #[inline]
    fn lines(&self) -> impl Iterator<Item = &'a LineWords<W>> + use<'a, W, N> {
        let table = self.table;
        std::iter::successors(Some(self.words), move |words| {
            line::link(words).map(|number| table.overflow_line(number))
        })
    }

    /// Returns the slot of a key, if it has one.
    #[inline]
    pub(super) fn find(&self, hash: TableHash) -> Option<Slot<'a, W>> {
        match line::find(self.words, hash.tag) {
            Some(index) => Some(Slot { words: self.words, index }),
            None => self.find_in_overflow(hash),
        }
    }

    fn find_in_overflow(&self, hash: TableHash) -> Option<Slot<'a, W>> {
        self.lines()
            .skip(1)
            .find_map(|words| line::find(words, hash.tag).map(|index| Slot { words, index }))
    }

    /// Adds an entry for a key that has none and for which the caller has reserved a key.
    ///
    /// The reservation is returned to the table if the entry replaces an expired one.
    pub(super) fn insert(&self, entry: &SlotEntry<N>, now: u64) {
        let mut last = self.words;
        for words in self.lines() {
            if let Some(slot) = line::find_empty(words) {
                return line::write(words, slot, entry);
            }
            let expired = |&slot: &usize| line::read::<W, N>(words, slot).full_at() <= now;
            if let Some(slot) = (0..SLOTS).find(expired) {
                line::write(words, slot, entry);
                return self.table.uncount(1);
            }
            last = words;
        }
        let Some(number) = self.table.new_overflow_line() else {
            // There is no line left to chain: the entry that owes least is evicted.
            self.remove_least((u8::MAX, u64::MAX));
            return self.insert(entry, now);
        };
        line::set_link(last, Some(number));
        line::write(self.table.overflow_line(number), 0, entry);
    }

    /// Removes the entry of a slot.
    pub(super) fn remove(&self, slot: Slot<'a, W>) {
        line::clear(slot.words, slot.index);
        self.table.uncount(1);
    }

    /// Iterates over the slots that hold an entry.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot<'a, W>> + use<'a, W, N> {
        self.lines()
            .flat_map(|words| (0..SLOTS).map(move |index| Slot { words, index }))
            .filter(|slot| slot.entry::<N>().tag != 0)
    }

    /// Drops expired entries, and the overflow lines that are no longer needed.
    pub(super) fn drop_expired(&self, now: u64) -> u64 {
        if !self.slots().any(|slot| slot.entry::<N>().full_at() <= now) {
            return 0;
        }
        let before = self.slots().count();
        let (entries, mut links) = self.take(now);
        self.put(&entries, &mut links);
        self.table.free_overflow_lines(links);
        (before - entries.len()) as u64
    }

    /// Empties the chain; returns the entries that have not expired, and its overflow lines.
    pub(super) fn take(&self, now: u64) -> (ChainEntries<N>, OverflowLines) {
        let (mut entries, mut expired) = (ChainEntries::new(), 0);
        for slot in self.slots() {
            match slot.entry() {
                entry if entry.full_at() > now => entries.push(entry),
                _ => expired += 1,
            }
        }
        self.table.uncount(expired);
        let links: OverflowLines = self.lines().filter_map(line::link).collect();
        for words in links.iter().map(|&n| self.table.overflow_line(n)).chain([self.words]) {
            (0..SLOTS).for_each(|slot| line::clear(words, slot));
            line::set_link(words, None);
        }
        (entries, links)
    }

    /// Fills an empty chain, taking overflow lines from `links`.
    ///
    /// The lines that [`take`](Self::take) freed are enough to put its entries back, on one chain
    /// or split over two.
    pub(super) fn put(&self, entries: &[SlotEntry<N>], links: &mut OverflowLines) {
        let mut words = self.words;
        for (i, entry) in entries.iter().enumerate() {
            if i > 0 && i % SLOTS == 0 {
                let number = links.pop().expect("as many lines as before");
                line::set_link(words, Some(number));
                words = self.table.overflow_line(number);
            }
            line::write(words, i % SLOTS, entry);
        }
    }

    /// Frees the overflow lines that the entries do not need, as after evictions.
    pub(super) fn compact(&self) {
        let lines = self.lines().count();
        if lines == 1 || self.slots().count() > (lines - 1) * SLOTS {
            return;
        }
        let (entries, mut links) = self.take(0);
        self.put(&entries, &mut links);
        self.table.free_overflow_lines(links);
    }

    /// Returns the rank of the entry that owes least.
    pub(super) fn least(&self) -> Option<DebtRank> {
        self.slots().map(|slot| slot.entry::<N>().rank()).min()
    }

    /// Removes the entry that owes least, if that is no more than `at_most`.
    pub(super) fn remove_least(&self, at_most: DebtRank) -> bool {
        let least = self.slots().min_by_key(|slot| slot.entry::<N>().rank());
        let least = least.filter(|slot| slot.entry::<N>().rank() <= at_most);
        least.inspect(|slot| self.remove(*slot)).is_some()
    }
}

impl<'a, const W: usize> Slot<'a, W> {
    /// Reads the entry.
    #[inline]
    pub(super) fn entry<const N: usize>(self) -> SlotEntry<N> {
        line::read(self.words, self.index)
    }

    /// Returns whether the slot holds the entry of `tag`.
    #[inline]
    pub(super) fn holds(self, tag: u64) -> bool {
        line::holds(self.words, self.index, tag)
    }

    /// Writes the entry.
    #[inline]
    pub(super) fn set<const N: usize>(self, entry: &SlotEntry<N>) {
        line::write(self.words, self.index, entry);
    }
}
