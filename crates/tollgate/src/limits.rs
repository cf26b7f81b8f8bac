//! The limits of a keyed limiter, and what they replaced.

use smallvec::SmallVec;
use tollgate_core::{Carry, Time};

use crate::store::{Bucket, Check, Former};
use crate::{Key, Limit};

/// How many changes back a key that was not seen since is still found.
const MAX_FORMER: usize = 4;

/// Limits in force. Each has a bucket of its own, new with every change, so that counters of
/// the old limits are never mistaken for those of the new.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    family: Family,
    /// How often the limits were changed.
    generation: u64,
    limits: SmallVec<[Limit; 2]>,
    buckets: SmallVec<[Bucket; 2]>,
    formers: SmallVec<[Option<Former>; 2]>,
}

/// Which limiter the counters belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// One of this process, by its number.
    Numbered(u64),
    /// One that several processes know by a name.
    Named(Box<str>),
}

impl Family {
    /// The buckets of some limits: 32 bits of a number, 24 of the change and 8 of the position; or
    /// what every process makes of a name and a limit.
    fn buckets(&self, generation: u64, limits: &[Limit]) -> SmallVec<[Bucket; 2]> {
        let bucket = |(index, limit): (usize, &Limit)| match self {
            Family::Numbered(number) => {
                let generation = (generation & 0xff_ffff) << 8;
                Bucket::new(number << 32 | generation | (index as u64 & 0xff))
            }
            Family::Named(name) => {
                Bucket::of(&["limiter", name, &index.to_string(), &limit.to_string()])
            }
        };
        limits.iter().enumerate().map(bucket).collect()
    }
}

impl Limits {
    pub(crate) fn new(family: Family, limits: SmallVec<[Limit; 2]>) -> Limits {
        let formers = limits.iter().map(|_| None).collect();
        let buckets = family.buckets(0, &limits);
        Limits { family, generation: 0, limits, buckets, formers }
    }

    /// Whether these are the same limits of the same limiter.
    pub(crate) fn is_same(&self, other: &Limits) -> bool {
        (&self.family, self.generation) == (&other.family, other.generation)
    }

    #[inline]
    pub(crate) fn all(&self) -> &[Limit] {
        &self.limits
    }

    /// A bucket number no other limiter, change or position has.
    pub(crate) fn bucket(&self, index: usize) -> Bucket {
        self.buckets[index]
    }

    #[inline]
    pub(crate) fn checks<'a>(
        &'a self,
        key: Key<'a>,
        cost: u64,
        lease: u64,
    ) -> SmallVec<[Check<'a>; 2]> {
        let mut checks = SmallVec::new();
        for (i, (limit, former)) in self.limits.iter().zip(&self.formers).enumerate() {
            let check = Check::new(self.buckets[i], key, limit, cost);
            checks.push(Check { lease, former: former.as_ref(), ..check });
        }
        checks
    }

    /// The limits that come after these.
    pub(crate) fn changed(&self, limits: SmallVec<[Limit; 2]>, carry: Carry, now: Time) -> Limits {
        let former = |i: usize| {
            let limit = self.limits.get(i)?.clone();
            let older = self.formers[i].clone().and_then(|older| older.still_of_use(now, 1));
            let former = older.map(Box::new);
            Some(Former { bucket: self.bucket(i), limit, carry, until: now, former })
        };
        let (family, generation) = (self.family.clone(), self.generation + 1);
        let formers = (0..limits.len()).map(former).collect();
        let buckets = family.buckets(generation, &limits);
        Limits { family, generation, limits, buckets, formers }
    }
}

impl Former {
    /// Whether any key may still owe something under the limit that was replaced (unless a
    /// settlement ran deep into debt).
    pub(crate) fn is_of_use(&self, now: Time) -> bool {
        self.until + self.limit.fill_time().times(2) >= now
    }

    /// The chain from here on, without those of no use and those too many changes back; `depth`
    /// is how many changes back this one is.
    pub(crate) fn still_of_use(self, now: Time, depth: usize) -> Option<Former> {
        if depth >= MAX_FORMER || !self.is_of_use(now) {
            return None;
        }
        let older = self.former.and_then(|older| older.still_of_use(now, depth + 1));
        Some(Former { former: older.map(Box::new), ..self })
    }
}
