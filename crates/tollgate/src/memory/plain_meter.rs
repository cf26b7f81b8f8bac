//! The fast path of the store, a plain meter on one key: one lock, one line, one cache miss.

use tollgate_core::{Algorithm, MeterState, PlainMeter, Retry, Time, Verdict};

use super::chain::Slot;
use super::line::SlotEntry;
use super::slot_class::{self, SlotClass, plain_meter};
use super::table::LinePrefetch;
use super::table_hash::TableHash;
use super::{BATCH, MemoryStore};
use crate::key::{CounterHasher, Fingerprint};
use crate::store::Check;
use crate::{Key, LimitAlgorithm};

/// The line of a key under a plain meter, not locked yet.
pub(crate) type PlainLine<'a> = LinePrefetch<'a, 8, 1>;

impl MemoryStore {
    /// Returns the meter and the line of a check that the fast path can decide.
    #[inline]
    pub(super) fn plain<'a>(&self, check: &Check<'a>) -> Option<(&'a PlainMeter, PlainLine<'_>)> {
        let plain = plain_meter(check.limit)
            .filter(|_| check.previous.is_none() && check.reserve.is_none())?;
        Some((plain, self.prefetch(self.fingerprinter.fingerprint(check.counter, check.key))))
    }

    /// Starts to bring the line of a key into the cache.
    #[inline(always)]
    pub(crate) fn prefetch(&self, fingerprint: Fingerprint) -> PlainLine<'_> {
        self.narrow.prefetch(TableHash::new(fingerprint))
    }

    /// Takes `cost` from a key, unless the request is `outdated` once the key is locked.
    ///
    /// `respond` gets the resulting state. It is inlined, so that only what it uses is computed.
    #[inline(always)]
    pub(crate) fn take_plain<R>(
        &self,
        plain: &PlainMeter,
        line: PlainLine<'_>,
        cost: u64,
        now: Time,
        outdated: impl Fn() -> bool,
        respond: impl FnOnce(MeterState, Result<(), Retry>) -> R,
    ) -> Option<R> {
        let hash = line.hash();
        let (line, slot) = line.lock_and_find();
        if outdated() {
            return None;
        }
        let Some(slot) = slot else {
            drop(line);
            let (state, result) = self.insert_plain(plain, hash, cost, now, &outdated)?;
            return Some(respond(state, result));
        };
        let (before, taken) = take_from_slot(plain, slot, cost, now);
        drop(line);
        Some(match taken {
            Ok(state) => respond(state, Ok(())),
            Err(retry) => respond(before, Err(retry)),
        })
    }

    /// Takes `cost` from a key that has no slot, and adds it unless it is refused.
    #[inline(never)]
    fn insert_plain(
        &self,
        plain: &PlainMeter,
        hash: TableHash,
        cost: u64,
        now: Time,
        outdated: &dyn Fn() -> bool,
    ) -> Option<(MeterState, Result<(), Retry>)> {
        let full = MeterState::default();
        let state = match plain.take(full, now, cost) {
            Ok(state) if cost > 0 => state,
            result => return Some((full, result.map(drop))),
        };
        let (nibble, words) = slot_class::to_narrow(state);
        while !self.reserve(SlotClass::Narrow) {
            self.evict_for(1, words[0]);
            self.free_memory(SlotClass::Narrow, words[0]);
        }
        let (line, slot) = self.narrow.prefetch(hash).lock_and_find();
        if outdated() {
            self.cancel_reservation(SlotClass::Narrow);
            return None;
        }
        if let Some(slot) = slot {
            // Another request has added the key meanwhile.
            self.cancel_reservation(SlotClass::Narrow);
            let (before, taken) = take_from_slot(plain, slot, cost, now);
            return Some((taken.unwrap_or(before), taken.map(drop)));
        }
        line.insert(&SlotEntry { tag: hash.tag, nibble, words }, now.as_nanos());
        drop(line);
        self.narrow.maintain(now.as_nanos(), || self.may_grow(SlotClass::Narrow));
        Some((state, Ok(())))
    }

    /// Takes one from each of many keys, each decided by itself, their cache misses overlapping.
    pub(crate) fn take_each_plain(
        &self,
        plain: &PlainMeter,
        hasher: &CounterHasher,
        keys: &[Key<'_>],
        outdated: impl Fn() -> bool,
        mut respond: impl FnMut(Key<'_>, Option<Result<(), Retry>>),
    ) {
        let now = self.now();
        for keys in keys.chunks(BATCH) {
            let mut lines = [None; BATCH];
            for (line, key) in lines.iter_mut().zip(keys) {
                *line = Some(self.prefetch(hasher.fingerprint(*key)));
            }
            for (line, key) in lines.into_iter().flatten().zip(keys) {
                let result = self.take_plain(plain, line, 1, now, &outdated, |_, result| result);
                respond(*key, result);
            }
        }
    }

    /// Decides a check under a plain meter and returns the full verdict.
    pub(super) fn decide_plain(
        &self,
        plain: &PlainMeter,
        line: PlainLine<'_>,
        check: &Check<'_>,
        now: Time,
    ) -> Verdict {
        let LimitAlgorithm::Meter(meter) = check.limit.algorithm() else {
            unreachable!("only meters are plain")
        };
        let verdict = |state: MeterState, result: Result<(), Retry>| {
            let judgement = meter.peek(&state, now);
            match result {
                Ok(()) => Verdict::allow(meter.capacity(), judgement),
                Err(retry) => Verdict::deny(meter.capacity(), judgement, retry),
            }
        };
        let decided = self.take_plain(plain, line, check.cost, now, || false, verdict);
        decided.expect("always up to date")
    }
}

/// Takes `cost` from the state in a slot, if that is allowed; returns the states before and after.
#[inline(always)]
fn take_from_slot(
    plain: &PlainMeter,
    slot: Slot<'_, 8>,
    cost: u64,
    now: Time,
) -> (MeterState, Result<MeterState, Retry>) {
    let mut entry = slot.entry::<1>();
    let before = slot_class::from_narrow(plain.scale(), entry.nibble, entry.words);
    let taken = plain.take(before, now, cost);
    if let Ok(state) = taken {
        (entry.nibble, entry.words) = slot_class::to_narrow(state);
        slot.set(&entry);
    }
    (before, taken)
}
