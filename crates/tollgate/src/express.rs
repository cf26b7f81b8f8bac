//! What the everyday case needs, ready at hand: a single plain meter in a store of its own.

use tollgate_core::{PlainMeter, Retry};

use crate::key::BucketHasher;
use crate::limits::Limits;
use crate::memory::plain_meter;
use crate::{Denied, Key, MemoryStore, Quota};

/// The short road of a keyed limiter.
#[derive(Debug)]
pub(crate) struct Express {
    plain: PlainMeter,
    hasher: BucketHasher,
    quota: Quota,
}

impl Express {
    pub(crate) fn new(limits: &Limits, store: &MemoryStore) -> Option<Express> {
        let [limit] = limits.all() else { return None };
        let plain = *plain_meter(limit)?;
        Some(Express { plain, hasher: store.hasher(limits.bucket(0)), quota: limit.quota() })
    }

    /// Decides, unless the limit is found to be out of date.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        store: &MemoryStore,
        key: Key<'_>,
        cost: u64,
        outdated: impl Fn() -> bool,
    ) -> Option<Result<(), Denied>> {
        // Fetch the line before asking the time: a precise clock waits for what is under way.
        let line = store.approach(self.hasher.of(key));
        let now = store.now();
        store.decide_plain(&self.plain, line, cost, now, outdated, |_, answer| self.say(answer))
    }

    /// Decides for each of `keys`; `None` where the limit is found to be out of date.
    #[inline]
    pub(crate) fn check_each(
        &self,
        store: &MemoryStore,
        keys: &[Key<'_>],
        outdated: impl Fn() -> bool,
        mut answer: impl FnMut(Key<'_>, Option<Result<(), Denied>>),
    ) {
        store.decide_each_plain(&self.plain, &self.hasher, keys, outdated, |key, said| {
            answer(key, said.map(|said| self.say(said)));
        });
    }

    #[inline(always)]
    fn say(&self, answer: Result<(), Retry>) -> Result<(), Denied> {
        answer.map_err(|retry| Denied::new(self.quota, 0, retry))
    }
}
