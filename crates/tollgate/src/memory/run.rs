//! Running a call: locks the slots of its checks and decides on them.

use tollgate_core::{Time, Verdict};

use super::locked_slots::LockedSlots;
use super::slot_class::SlotClass;
use super::slot_handle::SlotHandle;
use super::table_slot::{SlotCodec, TableSlot};
use super::{MemoryStore, Table};
use crate::Verdicts;
use crate::account::{self, Account, INLINE_CHECKS, Slots};
use crate::state::previous_limits;
use crate::store::{Action, Check, StoreCall};

impl MemoryStore {
    /// Runs a call at a time of the caller's choice, without reading the clock.
    ///
    /// For several calls that belong to one request and must see the same time.
    ///
    /// ```
    /// use tollgate::{Action, Check, CounterId, Limit, MemoryStore, Span, StoreCall};
    /// let (store, limit): (_, Limit) = (MemoryStore::new(), "1/s".parse()?);
    /// let checks = [Check::new(CounterId::new(0), "ann", &limit, 1)];
    /// let call = StoreCall { action: Action::Take { max_wait: Span::ZERO }, checks: &checks };
    /// let now = store.now();
    /// assert!(store.run_at(call, now)[0].allowed);
    /// assert!(!store.run_at(call, now)[0].allowed);
    /// assert!(store.run_at(call, now + Span::from_secs(1))[0].allowed);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn run_at(&self, call: StoreCall<'_>, now: Time) -> Verdicts {
        self.run_unless(call, now, || false).expect("always up to date")
    }

    /// Runs a call at `now`, unless it is `outdated` once its keys are locked.
    pub(crate) fn run_unless(
        &self,
        call: StoreCall<'_>,
        now: Time,
        outdated: impl Fn() -> bool,
    ) -> Option<Verdicts> {
        if let [check @ Check { previous: None, .. }] = call.checks {
            let verdict = match SlotClass::for_limit(check.limit) {
                SlotClass::Narrow => {
                    self.run_single(&self.narrow, call.action, check, now, &outdated)
                }
                SlotClass::Wide => self.run_single(&self.wide, call.action, check, now, &outdated),
                SlotClass::Boxed | SlotClass::Absent => {
                    return self.run_several(call, now, &outdated);
                }
            };
            return verdict.map(|verdict| {
                let mut verdicts = Verdicts::new();
                verdicts.push(verdict);
                verdicts
            });
        }
        self.run_several(call, now, &outdated)
    }

    /// Runs a call of one check whose state is in a table: one line, one lock.
    #[inline]
    fn run_single<'a, const W: usize, const N: usize>(
        &'a self,
        table: &'a Table<W, N>,
        action: Action,
        check: &Check<'_>,
        now: Time,
        outdated: &impl Fn() -> bool,
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
            let mut slots = SingleSlot {
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

    /// Runs any call under all its locks.
    fn run_several(
        &self,
        call: StoreCall<'_>,
        now: Time,
        outdated: &impl Fn() -> bool,
    ) -> Option<Verdicts> {
        let mut verdicts = Verdicts::new();
        let checks = call.checks.iter();
        let count = checks.map(|check| 1 + previous_limits(check).count()).sum();
        let done = if count <= INLINE_CHECKS {
            let handles = &mut [SlotHandle::ABSENT; INLINE_CHECKS][..count];
            self.run_on_handles(call, handles, now, outdated, &mut verdicts)
        } else {
            let handles = &mut vec![SlotHandle::ABSENT; count];
            self.run_on_handles(call, handles, now, outdated, &mut verdicts)
        };
        done.then_some(verdicts)
    }

    /// Runs a call; returns whether it was up to date.
    ///
    /// `handles` has an element for each check, and then one for each of their previous limits.
    fn run_on_handles<'a>(
        &'a self,
        call: StoreCall<'_>,
        handles: &mut [SlotHandle<'a>],
        now: Time,
        outdated: &impl Fn() -> bool,
        verdicts: &mut Verdicts,
    ) -> bool {
        let StoreCall { action, checks } = call;
        let (own, older) = handles.split_at_mut(checks.len());
        for (handle, check) in own.iter_mut().zip(checks) {
            handle.assign(self, check.counter, check.key, check.limit);
        }
        let replaced = checks
            .iter()
            .flat_map(|check| previous_limits(check).map(|previous| (check.key, previous)));
        for (handle, (key, previous)) in older.iter_mut().zip(replaced) {
            handle.assign(self, previous.counter, key, &previous.limit);
        }
        loop {
            let boxed_before = self.boxed.bytes();
            let mut slots = LockedSlots::new(self, checks, handles);
            if outdated() {
                return false;
            }
            let result = account::run_on(&mut slots, action, now, verdicts);
            let added = slots.added;
            drop(slots);
            match result {
                Ok(()) => {
                    if added {
                        self.maintain(now);
                    }
                    // What other threads add meanwhile, they trim themselves.
                    if self.boxed.bytes() > boxed_before {
                        self.trim_boxed();
                    }
                    return true;
                }
                Err(full) => {
                    self.evict_for(full.keys.min(self.max_keys), 0);
                    let vacant = handles[..checks.len()].iter().filter(|handle| handle.vacant);
                    vacant.for_each(|handle| self.free_memory(handle.class, 0));
                }
            }
        }
    }

    /// Sweeps or grows the tables if that is due after keys were added.
    fn maintain(&self, now: Time) {
        self.narrow.maintain(now.as_nanos(), || self.may_grow(SlotClass::Narrow));
        self.wide.maintain(now.as_nanos(), || self.may_grow(SlotClass::Wide));
    }
}

/// The locked slot of a single check.
struct SingleSlot<'a, 's, 'c, const W: usize, const N: usize> {
    store: &'a MemoryStore,
    check: &'s Check<'c>,
    slot: TableSlot<'a, W, N>,
    /// Whether the key has no entry.
    vacant: bool,
    reserved: bool,
    added: bool,
}

impl<'a, 'c, const W: usize, const N: usize> Slots<'c> for SingleSlot<'a, '_, 'c, W, N>
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
