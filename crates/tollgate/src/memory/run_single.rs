//! Running a check alone: one slot, one lock, no list of slots to lock in order.

use tollgate_core::{Time, Verdict};

use super::boxed::Shard;
use super::slot_class::SlotClass;
use super::slot_handle::SlotHandle;
use super::table_slot::{SlotCodec, TableSlot};
use super::{MemoryStore, Table};
use crate::account::{self, Account, Slots, State};
use crate::key::Fingerprint;
use crate::store::{Action, Check};
use crate::sync::MutexGuard;

impl MemoryStore {
    /// Runs `action` on a check without a previous limit, unless it is `outdated` once its key is
    /// locked.
    #[inline]
    pub(crate) fn run_check_unless(
        &self,
        action: Action,
        check: &Check<'_>,
        now: Time,
        outdated: impl Fn() -> bool,
    ) -> Option<Verdict> {
        match SlotClass::for_limit(check.limit) {
            SlotClass::Narrow => self.run_in_table(&self.narrow, action, check, now, outdated),
            SlotClass::Wide => self.run_in_table(&self.wide, action, check, now, outdated),
            SlotClass::Boxed => self.run_boxed(action, check, now, outdated),
            SlotClass::Absent => {
                (!outdated()).then(|| Account::open(check, None, now).run(action, now))
            }
        }
    }

    /// Runs a check whose state is in a table.
    #[inline]
    fn run_in_table<'a, const W: usize, const N: usize>(
        &'a self,
        table: &'a Table<W, N>,
        action: Action,
        check: &Check<'_>,
        now: Time,
        outdated: impl Fn() -> bool,
    ) -> Option<Verdict>
    where
        TableSlot<'a, W, N>: SlotCodec,
    {
        let hash = SlotHandle::new(self, check.counter, check.key, check.limit).hash();
        loop {
            let (line, slot) = table.prefetch(hash).lock_and_find();
            if outdated() {
                return None;
            }
            let slot = TableSlot::new(*line, hash, slot);
            let mut slots = SingleTableSlot {
                store: self,
                check,
                slot,
                vacant: false,
                reserved: false,
                added: false,
            };
            let result = account::run_on_single(&mut slots, action, now);
            let added = slots.added;
            drop(line);
            match result {
                Ok(verdict) => {
                    if added {
                        self.maintain(now);
                    }
                    return Some(verdict);
                }
                Err(full) => {
                    self.evict_for(full.keys, 0);
                    self.free_memory(<TableSlot<'a, W, N>>::CLASS, 0);
                }
            }
        }
    }

    /// Runs a check whose state is on the heap.
    #[inline(never)]
    fn run_boxed(
        &self,
        action: Action,
        check: &Check<'_>,
        now: Time,
        outdated: impl Fn() -> bool,
    ) -> Option<Verdict> {
        let fingerprint = self.fingerprinter.fingerprint(check.counter, check.key);
        loop {
            let bytes_before = self.boxed.bytes();
            let shard = self.boxed.lock_for(fingerprint);
            if outdated() {
                return None;
            }
            let mut slots = SingleBoxedSlot {
                store: self,
                check,
                fingerprint,
                shard,
                vacant: false,
                reserved: false,
            };
            let result = account::run_on_single(&mut slots, action, now);
            drop(slots);
            match result {
                Ok(verdict) => {
                    // What other threads add meanwhile, they trim themselves.
                    if self.boxed.bytes() > bytes_before {
                        self.trim_boxed();
                    }
                    return Some(verdict);
                }
                Err(full) => {
                    self.evict_for(full.keys, 0);
                    self.free_memory(SlotClass::Boxed, 0);
                }
            }
        }
    }
}

/// The locked slot of a single check in a table.
struct SingleTableSlot<'a, 's, 'c, const W: usize, const N: usize> {
    store: &'a MemoryStore,
    check: &'s Check<'c>,
    slot: TableSlot<'a, W, N>,
    /// Whether the key has no entry.
    vacant: bool,
    reserved: bool,
    added: bool,
}

impl<'a, 'c, const W: usize, const N: usize> Slots<'c> for SingleTableSlot<'a, '_, 'c, W, N>
where
    TableSlot<'a, W, N>: SlotCodec,
{
    #[inline(always)]
    fn len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn open(&mut self, _i: usize, now: Time) -> Account<'c> {
        self.vacant = !self.slot.has_entry();
        let state = self.slot.load(self.check.limit, now);
        let mut account = Account::open(self.check, state, now);
        if <TableSlot<'a, W, N>>::CLASS == SlotClass::Wide {
            account.follow_wall_clock(&self.store.clock, now);
        }
        account
    }

    #[inline(always)]
    fn is_vacant(&self, _i: usize) -> bool {
        self.vacant
    }

    #[inline(always)]
    fn is_new(&self, _i: usize, now: Time) -> bool {
        self.slot.read(now).is_none()
    }

    #[inline(always)]
    fn reserve(&mut self, _i: usize) -> bool {
        self.reserved = self.store.reserve(<TableSlot<'a, W, N>>::CLASS);
        self.reserved
    }

    #[inline(always)]
    fn close(&mut self, _i: usize, account: &mut Account<'c>, verdict: &Verdict, now: Time) {
        self.added = self.slot.save(account, verdict, self.reserved, now);
        if self.reserved && !self.added {
            self.store.cancel_reservation(<TableSlot<'a, W, N>>::CLASS);
        }
    }

    #[inline(always)]
    fn clear(&mut self, _i: usize, _account: &mut Account<'c>) {
        self.slot.remove();
    }
}

/// The locked slot of a single check on the heap.
struct SingleBoxedSlot<'a, 's, 'c> {
    store: &'a MemoryStore,
    check: &'s Check<'c>,
    fingerprint: Fingerprint,
    shard: MutexGuard<'a, Shard>,
    /// Whether the key has no state.
    vacant: bool,
    reserved: bool,
}

impl<'c> Slots<'c> for SingleBoxedSlot<'_, '_, 'c> {
    #[inline(always)]
    fn len(&self) -> usize {
        1
    }

    #[inline(always)]
    fn open(&mut self, _i: usize, now: Time) -> Account<'c> {
        let state = self.shard.load(self.fingerprint, self.check.limit, false, now);
        self.vacant = state.is_none();
        Account::open(self.check, state, now)
    }

    #[inline(always)]
    fn is_vacant(&self, _i: usize) -> bool {
        self.vacant
    }

    fn is_new(&self, _i: usize, now: Time) -> bool {
        !self.shard.contains(self.fingerprint, now)
    }

    fn reserve(&mut self, _i: usize) -> bool {
        self.reserved = self.store.reserve(SlotClass::Boxed);
        self.reserved
    }

    fn reopen(&mut self, _i: usize, state: State) {
        if !self.vacant {
            self.shard.restore(self.fingerprint, state);
        }
    }

    #[inline(always)]
    fn close(&mut self, _i: usize, account: &mut Account<'c>, verdict: &Verdict, now: Time) {
        let boxed = &self.store.boxed;
        let shard = &mut self.shard;
        let added = boxed.save(shard, self.fingerprint, account, verdict, self.reserved, now);
        if self.reserved && !added {
            self.store.cancel_reservation(SlotClass::Boxed);
        }
    }

    fn clear(&mut self, _i: usize, _account: &mut Account<'c>) {
        self.store.boxed.remove(&mut self.shard, self.fingerprint);
    }
}
