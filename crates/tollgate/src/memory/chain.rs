//! A locked line and the overflow lines chained to it: where entries are found, added and dropped.

use std::ops::Deref;

use smallvec::SmallVec;

use super::line::{self, Entry, Lock, SLOTS, Words};
use super::place::Place;
use super::table::Table;

pub(super) type Entries<const N: usize> = SmallVec<[Entry<N>; 16]>;
/// How much an entry owes, to be compared.
pub(super) type Rank = (u8, u64);
/// Numbers of overflow lines.
pub(super) type Links = SmallVec<[u64; 8]>;

/// A line and the overflow lines chained to it, to be touched only while it is locked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a, const W: usize, const N: usize> {
    pub(super) table: &'a Table<W, N>,
    pub(super) words: &'a Words<W>,
}

/// A chain, locked until this is dropped.
#[derive(Debug)]
pub(super) struct Locked<'a, const W: usize, const N: usize> {
    chain: Chain<'a, W, N>,
    _lock: Lock<'a>,
}

/// Where in a locked chain an entry was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a, const W: usize> {
    pub(super) words: &'a Words<W>,
    pub(super) index: usize,
}

impl<'a, const W: usize, const N: usize> Locked<'a, W, N> {
    /// Locks a line and with it its chain.
    #[inline(always)]
    pub(super) fn new(table: &'a Table<W, N>, words: &'a Words<W>) -> Locked<'a, W, N> {
        Locked { _lock: Lock::of(words), chain: Chain { table, words } }
    }
}

impl<'a, const W: usize, const N: usize> Deref for Locked<'a, W, N> {
    type Target = Chain<'a, W, N>;

    #[inline]
    fn deref(&self) -> &Chain<'a, W, N> {
        &self.chain
    }
}

impl<'a, const W: usize, const N: usize> Chain<'a, W, N> {
    /// The home line and the overflow lines behind it.
    #[inline]
    fn lines(&self) -> impl Iterator<Item = &'a Words<W>> + use<'a, W, N> {
        let table = self.table;
        std::iter::successors(Some(self.words), move |words| {
            line::link(words).map(|number| table.overflow_line(number))
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
        self.lines()
            .skip(1)
            .find_map(|words| line::find(words, place.tag).map(|index| Slot { words, index }))
    }

    /// Adds an entry for a key that has none. Returns whether the table holds one key more.
    pub(super) fn insert(&self, place: Place, nibble: u8, words: [u64; N], now: u64) -> bool {
        let entry = Entry { tag: place.tag, nibble, words };
        let mut last = self.words;
        for words in self.lines() {
            let free = line::find_empty(words).map(|slot| (slot, true)).or_else(|| {
                let full = |&slot: &usize| line::read::<W, N>(words, slot).full_at() <= now;
                (0..SLOTS).find(full).map(|slot| (slot, false))
            });
            if let Some((slot, one_more)) = free {
                line::write(words, slot, &entry);
                self.table.count(one_more.into());
                return one_more;
            }
            last = words;
        }
        let Some(number) = self.table.new_overflow_line() else {
            // No line left to chain: the entry that owes least gives way.
            self.remove_least((u8::MAX, u64::MAX));
            return self.insert(place, nibble, words, now);
        };
        let words = self.table.overflow_line(number);
        line::set_link(last, Some(number));
        line::write(words, 0, &entry);
        self.table.count(1);
        true
    }

    pub(super) fn remove(&self, slot: Slot<'a, W>) {
        line::clear(slot.words, slot.index);
        self.table.uncount(1);
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot<'a, W>> + use<'a, W, N> {
        self.lines()
            .flat_map(|words| (0..SLOTS).map(move |index| Slot { words, index }))
            .filter(|slot| slot.entry::<N>().tag != 0)
    }

    /// Drops what may be forgotten, and overflow lines that are no longer needed.
    pub(super) fn forget_full(&self, now: u64) -> u64 {
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
    pub(super) fn take(&self, now: u64) -> (Entries<N>, Links) {
        let (mut entries, mut forgotten) = (Entries::new(), 0);
        for slot in self.slots() {
            match slot.entry() {
                entry if entry.full_at() > now => entries.push(entry),
                _ => forgotten += 1,
            }
        }
        self.table.uncount(forgotten);
        let links: Links = self.lines().filter_map(line::link).collect();
        for words in links.iter().map(|&n| self.table.overflow_line(n)).chain([self.words]) {
            (0..SLOTS).for_each(|slot| line::clear(words, slot));
            line::set_link(words, None);
        }
        (entries, links)
    }

    /// Fills an empty chain, taking overflow lines from `links`: what [`take`](Self::take) freed
    /// is enough to put it back, be it on one line or split over two.
    pub(super) fn put(&self, entries: &[Entry<N>], links: &mut Links) {
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

    /// What the entry that owes least owes.
    pub(super) fn least(&self) -> Option<Rank> {
        self.slots().map(|slot| slot.entry::<N>().rank()).min()
    }

    /// Removes the entry that owes least, if that is no more than `at_most`.
    pub(super) fn remove_least(&self, at_most: Rank) -> bool {
        let least = self.slots().min_by_key(|slot| slot.entry::<N>().rank());
        let least = least.filter(|slot| slot.entry::<N>().rank() <= at_most);
        least.inspect(|slot| self.remove(*slot)).is_some()
    }
}

impl<'a, const W: usize> Slot<'a, W> {
    #[inline]
    pub(super) fn entry<const N: usize>(self) -> Entry<N> {
        line::read(self.words, self.index)
    }

    #[inline]
    pub(super) fn holds(self, tag: u64) -> bool {
        line::holds(self.words, self.index, tag)
    }

    #[inline]
    pub(super) fn set<const N: usize>(self, entry: &Entry<N>) {
        line::write(self.words, self.index, entry);
    }
}
