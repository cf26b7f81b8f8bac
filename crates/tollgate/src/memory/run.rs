//! Running a call: locks the slots of its checks and decides on them.

use tollgate_core::Time;

use super::MemoryStore;
use super::locked_slots::LockedSlots;
use super::slot_class::SlotClass;
use super::slot_handle::SlotHandle;
use crate::Verdicts;
use crate::account::{self, INLINE_CHECKS};
use crate::state::previous_limits;
use crate::store::{Check, StoreCall};

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
            let verdict = self.run_check_unless(call.action, check, now, outdated)?;
            let mut verdicts = Verdicts::new();
            verdicts.push(verdict);
            return Some(verdicts);
        }
        self.run_several(call, now, &outdated)
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
        let done = match count {
            // Most calls have two checks, and an array of more is slower to fill.
            ..=2 => {
                let handles = &mut [SlotHandle::ABSENT; 2][..count];
                self.run_on_handles(call, handles, now, outdated, &mut verdicts)
            }
            3..=INLINE_CHECKS => {
                let handles = &mut [SlotHandle::ABSENT; INLINE_CHECKS][..count];
                self.run_on_handles(call, handles, now, outdated, &mut verdicts)
            }
            _ => {
                let handles = &mut vec![SlotHandle::ABSENT; count];
                self.run_on_handles(call, handles, now, outdated, &mut verdicts)
            }
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
    pub(super) fn maintain(&self, now: Time) {
        self.narrow.maintain(now.as_nanos(), || self.may_grow(SlotClass::Narrow));
        self.wide.maintain(now.as_nanos(), || self.may_grow(SlotClass::Wide));
    }
}
