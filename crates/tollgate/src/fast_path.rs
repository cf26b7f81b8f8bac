//! The fast path of a keyed limiter: a single plain meter in a memory store of its own.

use tollgate_core::{PlainMeter, Retry};

use crate::key::CounterHasher;
use crate::limits::Limits;
use crate::memory::plain_meter;
use crate::{Denied, Key, LimitSummary, MemoryStore};

/// The precomputed parameters of decisions under a single plain meter.
#[derive(Debug)]
pub(crate) struct FastPath {
    plain: PlainMeter,
    hasher: CounterHasher,
    summary: LimitSummary,
}

impl FastPath {
    /// Creates the fast path of a limiter, if its limits have one.
    pub(crate) fn new(limits: &Limits, store: &MemoryStore) -> Option<FastPath> {
        let [limit] = limits.all() else { return None };
        let plain = *plain_meter(limit)?;
        Some(FastPath { plain, hasher: store.hasher(limits.counter(0)), summary: limit.summary() })
    }

    /// Takes `cost` from `key`, unless the limit is `outdated` once the key is locked.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        store: &MemoryStore,
        key: Key<'_>,
        cost: u64,
        outdated: impl Fn() -> bool,
    ) -> Option<Result<(), Denied>> {
        // The prefetch comes before the clock, since reading a precise clock waits for pending loads.
        let line = store.prefetch(self.hasher.fingerprint(key));
        let now = store.now();
        store.take_plain(&self.plain, line, cost, now, outdated, |_, result| self.denied(result))
    }

    /// Takes one from each of `keys`; the result is `None` where the limit is `outdated`.
    #[inline]
    pub(crate) fn check_each(
        &self,
        store: &MemoryStore,
        keys: &[Key<'_>],
        outdated: impl Fn() -> bool,
        mut on_result: impl FnMut(Key<'_>, Option<Result<(), Denied>>),
    ) {
        store.take_each_plain(&self.plain, &self.hasher, keys, outdated, |key, result| {
            on_result(key, result.map(|result| self.denied(result)));
        });
    }

    /// Converts the refusal of the meter into an error.
    #[inline(always)]
    fn denied(&self, result: Result<(), Retry>) -> Result<(), Denied> {
        result.map_err(|retry| Denied::new(self.summary, 0, retry))
    }
}
