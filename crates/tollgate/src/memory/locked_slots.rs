//! The slots of several checks, all locked, so that they are decided as one.
//!
//! Every request takes its locks in the same order (by class, then by number), so that no two
//! requests can wait for each other.

use smallvec::SmallVec;
use tollgate_core::{Time, Verdict};

use super::MemoryStore;
use super::boxed::Shard;
use super::line::LineLock;
use super::slot_class::SlotClass;
use super::slot_handle::{SlotHandle, SlotLocation};
use super::table_slot::SlotCodec;
use crate::account::{Account, INLINE_CHECKS, Slots, State};
use crate::limit::Limit;
use crate::state::previous_limits;
use crate::store::{Check, PreviousLimit};
use crate::sync::MutexGuard;

/// The slots of a request with all their locks: one for each check, then those of previous limits.
#[derive(Debug)]
pub(super) struct LockedSlots<'a, 's, 'c> {
    store: &'a MemoryStore,
    checks: &'s [Check<'c>],
    handles: &'s mut [SlotHandle<'a>],
    /// The first slot of the previous limits of the check that is opened next.
    next_previous: usize,
    lines: SmallVec<[LineLock<'a>; INLINE_CHECKS]>,
    shards: SmallVec<[MutexGuard<'a, Shard>; 1]>,
    /// Whether a key was added.
    pub(super) added: bool,
}

impl<'a, 's, 'c> LockedSlots<'a, 's, 'c> {
    /// Locks all slots. Starts over if a table grew meanwhile and a slot has moved.
    #[inline]
    pub(super) fn new(
        store: &'a MemoryStore,
        checks: &'s [Check<'c>],
        handles: &'s mut [SlotHandle<'a>],
    ) -> LockedSlots<'a, 's, 'c> {
        let mut slots = LockedSlots {
            store,
            checks,
            handles,
            next_previous: checks.len(),
            lines: SmallVec::new(),
            shards: SmallVec::new(),
            added: false,
        };
        while slots.lock().is_none() {
            slots.unlock();
        }
        slots
    }

    /// Releases all locks.
    #[inline]
    fn unlock(&mut self) {
        self.lines.clear();
        self.shards.clear();
    }

    /// Takes the missing locks one by one in order, and locates the slots that each covers.
    ///
    /// Returns `None` if a slot has moved to another line meanwhile.
    #[inline]
    fn lock(&mut self) -> Option<()> {
        let store = self.store;
        self.handles.iter_mut().for_each(|handle| handle.prefetch(store));
        while let Some(next) = self.handles.iter().filter_map(SlotHandle::missing_lock).min() {
            let (class, number) = next;
            match class {
                SlotClass::Narrow => {
                    let (lock, chain) = store.narrow.lock_chain(number);
                    self.lines.push(lock);
                    self.locate(next, |handle| {
                        chain.slot_on(handle.hash(), number).map(SlotLocation::Narrow)
                    })?;
                }
                SlotClass::Wide => {
                    let (lock, chain) = store.wide.lock_chain(number);
                    self.lines.push(lock);
                    self.locate(next, |handle| {
                        chain.slot_on(handle.hash(), number).map(SlotLocation::Wide)
                    })?;
                }
                SlotClass::Boxed | SlotClass::Absent => {
                    let shard = self.shards.len();
                    self.shards.push(store.boxed.lock(number));
                    self.locate(next, |_| Some(SlotLocation::Boxed(shard)))?;
                }
            }
        }
        Some(())
    }

    /// Locates the slots that `lock` covers.
    #[inline]
    fn locate(
        &mut self,
        lock: (SlotClass, u64),
        find: impl Fn(&SlotHandle<'a>) -> Option<SlotLocation<'a>>,
    ) -> Option<()> {
        for handle in &mut *self.handles {
            if handle.missing_lock() == Some(lock) {
                handle.location = find(handle)?;
            }
        }
        Some(())
    }

    /// Returns whether a slot has a state that has not expired.
    pub(super) fn contains(&self, i: usize, now: Time) -> bool {
        let SlotHandle { location, fingerprint, .. } = &self.handles[i];
        match location {
            SlotLocation::Narrow(slot) => slot.read(now).is_some(),
            SlotLocation::Wide(slot) => slot.read(now).is_some(),
            SlotLocation::Boxed(shard) => self.shards[*shard].contains(*fingerprint, now),
            SlotLocation::Absent | SlotLocation::Unlocked(_) => false,
        }
    }

    /// Reads the state of a slot under `limit`, unless it has expired.
    ///
    /// A state on the heap is copied, or moved out until the slot is closed or reopened.
    #[inline(always)]
    fn load(&mut self, i: usize, limit: &Limit, copy: bool, now: Time) -> Option<State> {
        let SlotHandle { location, fingerprint, .. } = &self.handles[i];
        match location {
            SlotLocation::Narrow(slot) => slot.load(limit, now),
            SlotLocation::Wide(slot) => slot.load(limit, now),
            SlotLocation::Boxed(shard) => self.shards[*shard].load(*fingerprint, limit, copy, now),
            SlotLocation::Absent | SlotLocation::Unlocked(_) => None,
        }
    }

    /// Returns the state under `limit` that a previous limit left in slot `i`, or an older one in
    /// the slots that follow.
    fn carried_over(
        &mut self,
        limit: &Limit,
        previous: Option<&PreviousLimit>,
        i: usize,
        now: Time,
    ) -> Option<State> {
        let previous = previous?;
        let state = self.load(i, &previous.limit, true, now).or_else(|| {
            self.carried_over(&previous.limit, previous.previous.as_deref(), i + 1, now)
        })?;
        let mut account = Account::new(&previous.limit, state, 0);
        account.follow_wall_clock(&self.store.clock, now);
        account.carry(limit, previous.until.min(now), previous.carry);
        Some(account.state)
    }

    /// Removes the state of a slot.
    fn remove(&mut self, i: usize) {
        let SlotHandle { location, fingerprint, .. } = &self.handles[i];
        match location {
            SlotLocation::Narrow(slot) => slot.remove(),
            SlotLocation::Wide(slot) => slot.remove(),
            SlotLocation::Boxed(shard) => {
                self.store.boxed.remove(&mut self.shards[*shard], *fingerprint);
            }
            SlotLocation::Absent | SlotLocation::Unlocked(_) => {}
        }
    }
}

impl<'c> Slots<'c> for LockedSlots<'_, '_, 'c> {
    #[inline]
    fn len(&self) -> usize {
        self.checks.len()
    }

    #[inline]
    fn open(&mut self, i: usize, now: Time) -> Account<'c> {
        let check = &self.checks[i];
        let own = self.load(i, check.limit, false, now);
        self.handles[i].vacant = own.is_none() && self.handles[i].class != SlotClass::Absent;
        let state = match own {
            None if check.previous.is_some() => {
                self.carried_over(check.limit, check.previous, self.next_previous, now)
            }
            own => own,
        };
        self.next_previous += previous_limits(check).count();
        let handle = &self.handles[i];
        let same_as = self.handles[..i].iter().rposition(|other| other.is_same_slot(handle));
        let mut account = Account { same_as, ..Account::open(check, state, now) };
        account.follow_wall_clock(&self.store.clock, now);
        account
    }

    #[inline]
    fn is_vacant(&self, i: usize) -> bool {
        self.handles[i].vacant
    }

    fn is_new(&self, i: usize, now: Time) -> bool {
        self.checks[i].previous.is_none() && !self.contains(i, now)
    }

    fn reserve(&mut self, i: usize) -> bool {
        // The states of a request with more keys than the store can hold are dropped.
        let reserved = self.handles.iter().filter(|handle| handle.reserved).count() as u64;
        if reserved >= self.store.max_keys {
            return true;
        }
        self.handles[i].reserved = self.store.reserve(self.handles[i].class);
        self.handles[i].reserved
    }

    fn cancel_reservations(&mut self) {
        for handle in self.handles.iter_mut().filter(|handle| handle.reserved) {
            handle.reserved = false;
            self.store.cancel_reservation(handle.class);
        }
    }

    fn reopen(&mut self, i: usize, state: State) {
        let SlotHandle { location, fingerprint, vacant, .. } = self.handles[i];
        if let SlotLocation::Boxed(shard) = location
            && !vacant
        {
            self.shards[shard].restore(fingerprint, state);
        }
    }

    #[inline]
    fn clear_previous(&mut self) {
        (self.checks.len()..self.handles.len()).for_each(|i| self.remove(i));
    }

    #[inline]
    fn close(&mut self, i: usize, account: &mut Account<'c>, verdict: &Verdict, now: Time) {
        let SlotHandle { class, location, fingerprint, reserved, .. } = &self.handles[i];
        let added = match location {
            SlotLocation::Narrow(slot) => slot.save(account, verdict, *reserved, now),
            SlotLocation::Wide(slot) => slot.save(account, verdict, *reserved, now),
            SlotLocation::Boxed(shard) => {
                let shard = &mut self.shards[*shard];
                self.store.boxed.save(shard, *fingerprint, account, verdict, *reserved, now)
            }
            SlotLocation::Absent | SlotLocation::Unlocked(_) => false,
        };
        if *reserved && !added {
            self.store.cancel_reservation(*class);
        }
        self.added |= added;
    }

    fn clear(&mut self, i: usize, _account: &mut Account<'c>) {
        self.remove(i);
    }
}
