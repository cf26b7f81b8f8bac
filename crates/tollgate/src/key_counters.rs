//! The counters of one key under all limits of a keyed limiter.

use tollgate_core::Verdict;

use crate::counters::Counters;
use crate::denied::{combine, conclude};
use crate::limits::Limits;
use crate::store::{Action, StoreCall};
use crate::{Clock, Denied, Key, KeyedLimiter};

/// The counters of one key of a limiter.
pub(crate) struct KeyCounters<'a> {
    pub(crate) limiter: &'a KeyedLimiter,
    pub(crate) key: Key<'a>,
}

impl KeyCounters<'_> {
    /// Runs `action` on all limits; without a `lease`, limits on concurrency get a new one.
    #[inline]
    pub(crate) fn run_on_limits(
        &self,
        action: Action,
        cost: u64,
        lease: Option<u64>,
    ) -> Result<Verdict, Denied> {
        let (limiter, store) = (self.limiter, self.limiter.store());
        let attempt = |limits: &Limits| {
            // Evaluated once the key is locked, when no other thread can carry it over.
            let outdated = || limiter.limits(|now| !std::ptr::eq(now, limits));
            let lease = lease.unwrap_or_else(|| limits.new_lease());
            let now = store.now();
            if let Some(check) = limits.single_check(self.key, cost, lease) {
                let verdict = store.run_check_unless(action, &check, now, outdated)?;
                return Some(conclude(action, verdict, check.limit));
            }
            let checks = limits.checks(self.key, cost, lease);
            let call = StoreCall { action, checks: &checks };
            let verdicts = store.run_unless(call, now, outdated)?;
            Some(combine(action, &verdicts, limits.all()))
        };
        loop {
            if let Some(result) = limiter.limits(attempt) {
                return result;
            }
        }
    }
}

impl Counters for KeyCounters<'_> {
    fn clock(&self) -> &Clock {
        self.limiter.store().clock_ref()
    }

    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied> {
        self.run_on_limits(action, cost, Some(lease))
    }
}
