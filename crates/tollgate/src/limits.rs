//! The limits of a keyed limiter, and the limits they have replaced.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tollgate_core::{Carry, Time};

use crate::counters::new_lease;
use crate::store::{Check, CounterId, PreviousLimit};
use crate::{Key, Limit, LimitAlgorithm};

/// The number of changes after which a key that was not seen meanwhile is no longer found.
const MAX_PREVIOUS: usize = 4;

/// The active limits of a limiter.
///
/// Every change gives each limit a new [`CounterId`], so that counters of replaced limits are never
/// mistaken for current ones.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    family: Family,
    /// How often the limits were changed.
    generation: u64,
    limits: SmallVec<[Limit; 2]>,
    counter_ids: SmallVec<[CounterId; 2]>,
    previous_limits: SmallVec<[Option<PreviousLimit>; 2]>,
    /// Whether a limit is on concurrency, so that a request needs a lease.
    needs_lease: bool,
}

/// The limiter that counters belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// A limiter of this process, by its number.
    Numbered(u64),
    /// A limiter that several processes know by its name.
    Named(Box<str>),
}

impl Family {
    /// A limiter whose store is its own.
    ///
    /// A constant, so that the layout of such a store depends on nothing else in the process: the
    /// model checker must be able to repeat a run.
    pub(crate) const OWN_STORE: Family = Family::Numbered(0);

    /// Returns the family of another limiter on a given store, so that no two share a counter.
    pub(crate) fn next() -> Family {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Family::Numbered(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the counter ids of `limits`.
    ///
    /// An id is 32 bits of the limiter's number, 24 of the generation and 8 of the position; or a
    /// hash of the limiter's name and the limit, which is the same in every process.
    fn counter_ids(&self, generation: u64, limits: &[Limit]) -> SmallVec<[CounterId; 2]> {
        let counter = |(index, limit): (usize, &Limit)| match self {
            Family::Numbered(number) => {
                let generation = (generation & 0xff_ffff) << 8;
                CounterId::new(number << 32 | generation | (index as u64 & 0xff))
            }
            Family::Named(name) => {
                CounterId::from_parts(&["limiter", name, &index.to_string(), &limit.to_string()])
            }
        };
        limits.iter().enumerate().map(counter).collect()
    }
}

impl Limits {
    /// Creates the first limits of a limiter.
    pub(crate) fn new(family: Family, limits: SmallVec<[Limit; 2]>) -> Limits {
        let previous_limits = limits.iter().map(|_| None).collect();
        let counter_ids = family.counter_ids(0, &limits);
        let needs_lease = needs_lease(&limits);
        Limits { family, generation: 0, limits, counter_ids, previous_limits, needs_lease }
    }

    /// Returns the limits in order.
    #[inline]
    pub(crate) fn all(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns the counter id of a limit, which no other limiter, generation or position has.
    pub(crate) fn counter(&self, index: usize) -> CounterId {
        self.counter_ids[index]
    }

    /// Returns the lease of a new request; 0 if no limit is on concurrency.
    ///
    /// Threads share the counter of leases, so a request that needs none leaves it alone.
    #[inline]
    pub(crate) fn new_lease(&self) -> u64 {
        if self.needs_lease { new_lease() } else { 0 }
    }

    /// Returns the checks of a request, one for each limit.
    #[inline]
    pub(crate) fn checks<'a>(
        &'a self,
        key: Key<'a>,
        cost: u64,
        lease: u64,
    ) -> SmallVec<[Check<'a>; 2]> {
        (0..self.limits.len()).map(|i| self.check(i, key, cost, lease)).collect()
    }

    /// Returns the check of a request, if there is one limit, which has not replaced another.
    #[inline]
    pub(crate) fn single_check<'a>(
        &'a self,
        key: Key<'a>,
        cost: u64,
        lease: u64,
    ) -> Option<Check<'a>> {
        let is_single = self.limits.len() == 1 && self.previous_limits[0].is_none();
        is_single.then(|| self.check(0, key, cost, lease))
    }

    #[inline]
    fn check<'a>(&'a self, i: usize, key: Key<'a>, cost: u64, lease: u64) -> Check<'a> {
        let check = Check::new(self.counter_ids[i], key, &self.limits[i], cost);
        Check { lease, previous: self.previous_limits[i].as_ref(), ..check }
    }

    /// Returns the limits that replace these at `now`.
    pub(crate) fn changed(&self, limits: SmallVec<[Limit; 2]>, carry: Carry, now: Time) -> Limits {
        let previous = |i: usize| {
            let limit = self.limits.get(i)?.clone();
            let older = self.previous_limits[i].clone().and_then(|older| older.pruned(now, 1));
            let previous = older.map(Box::new);
            Some(PreviousLimit { counter: self.counter(i), limit, carry, until: now, previous })
        };
        let (family, generation) = (self.family.clone(), self.generation + 1);
        let previous_limits = (0..limits.len()).map(previous).collect();
        let counter_ids = family.counter_ids(generation, &limits);
        let needs_lease = needs_lease(&limits);
        Limits { family, generation, limits, counter_ids, previous_limits, needs_lease }
    }
}

/// Returns whether one of `limits` is on concurrency.
fn needs_lease(limits: &[Limit]) -> bool {
    limits.iter().any(|limit| {
        matches!(limit.algorithm(), LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_))
    })
}

impl PreviousLimit {
    /// Returns whether a key may still owe something under this limit at `now`.
    ///
    /// A previous limit is irrelevant after twice the time in which the limit fills; a deeper debt is forgiven.
    pub fn is_relevant(&self, now: Time) -> bool {
        self.until + self.limit.fill_time().times(2) >= now
    }

    /// Drops the limits of this chain that are no longer relevant or too many changes back.
    ///
    /// `depth` is the number of changes between the active limit and this one.
    pub fn pruned(self, now: Time, depth: usize) -> Option<PreviousLimit> {
        if depth >= MAX_PREVIOUS || !self.is_relevant(now) {
            return None;
        }
        let older = self.previous.and_then(|older| older.pruned(now, depth + 1));
        Some(PreviousLimit { previous: older.map(Box::new), ..self })
    }
}
