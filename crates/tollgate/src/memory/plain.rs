//! The everyday case, a plain meter on one key: one lock, one line, one cache miss.

use tollgate_core::{Algorithm, MeterState, PlainMeter, Retry, Time, Verdict};

use super::place::Place;
use super::room::{self, plain_meter};
use super::table::Approach;
use super::{BATCH, MemoryStore};
use crate::key::{BucketHasher, Fingerprint};
use crate::store::Check;
use crate::{Engine, Key};

/// On the way to the line of a key under a plain meter.
pub(crate) type PlainLine<'a> = Approach<'a, 8, 1>;

impl MemoryStore {
    /// The meter and the line of a check that needs no more than that.
    #[inline]
    pub(super) fn plain<'a>(&self, check: &Check<'a>) -> Option<(&'a PlainMeter, PlainLine<'_>)> {
        let plain = plain_meter(check.limit)
            .filter(|_| check.former.is_none() && check.reserve.is_none())?;
        Some((plain, self.approach(self.fingerprinter.of(check.bucket, check.key))))
    }

    /// Sets out for the line of a key.
    #[inline(always)]
    pub(crate) fn approach(&self, fingerprint: Fingerprint) -> PlainLine<'_> {
        self.narrow.approach(Place::of(fingerprint))
    }

    /// Decides, unless the request is found to be out of date once the key is locked. Inlined,
    /// and `say` is handed the state that is kept, so that what a caller does not ask is not
    /// computed.
    #[inline(always)]
    pub(crate) fn decide_plain<R>(
        &self,
        plain: &PlainMeter,
        line: PlainLine<'_>,
        cost: u64,
        now: Time,
        outdated: impl Fn() -> bool,
        say: impl FnOnce(MeterState, Result<(), Retry>) -> R,
    ) -> Option<R> {
        let place = line.place();
        let (line, slot) = line.lock_and_find();
        if outdated() {
            return None;
        }
        let Some(slot) = slot else {
            drop(line);
            let (state, answer) = self.first_of_plain(plain, place, cost, now, &outdated)?;
            return Some(say(state, answer));
        };
        let mut entry = slot.entry();
        let before = room::from_narrow(plain.scale(), entry.nibble, entry.words);
        let answer = plain.take(before, now, cost);
        if let Ok(state) = answer {
            (entry.nibble, entry.words) = room::to_narrow(state);
            slot.set(&entry);
        }
        drop(line);
        Some(match answer {
            Ok(state) => say(state, Ok(())),
            Err(retry) => say(before, Err(retry)),
        })
    }

    /// A key not seen before, or forgotten.
    #[inline(never)]
    fn first_of_plain(
        &self,
        plain: &PlainMeter,
        place: Place,
        cost: u64,
        now: Time,
        outdated: &dyn Fn() -> bool,
    ) -> Option<(MeterState, Result<(), Retry>)> {
        let full = MeterState::default();
        let state = match plain.take(full, now, cost) {
            Ok(state) if cost > 0 => state,
            answer => return Some((full, answer.map(drop))),
        };
        let (nibble, words) = room::to_narrow(state);
        self.make_room(words[0]);
        let (line, slot) = self.narrow.approach(place).lock_and_find();
        if outdated() {
            return None;
        }
        // Another request may have come first.
        if slot.is_some() {
            drop(line);
            let line = self.narrow.approach(place);
            return self
                .decide_plain(plain, line, cost, now, outdated, |state, answer| (state, answer));
        }
        line.insert(place, nibble, words, now.as_nanos());
        drop(line);
        self.narrow.tend(now.as_nanos());
        Some((state, Ok(())))
    }

    /// Decides for many keys, each on its own, their cache misses overlapping.
    pub(crate) fn decide_each_plain(
        &self,
        plain: &PlainMeter,
        hasher: &BucketHasher,
        keys: &[Key<'_>],
        outdated: impl Fn() -> bool,
        mut answer: impl FnMut(Key<'_>, Option<Result<(), Retry>>),
    ) {
        let now = self.now();
        for keys in keys.chunks(BATCH) {
            let mut lines = [None; BATCH];
            for (line, key) in lines.iter_mut().zip(keys) {
                *line = Some(self.approach(hasher.of(*key)));
            }
            for (line, key) in lines.into_iter().flatten().zip(keys) {
                let said = self.decide_plain(plain, line, 1, now, &outdated, |_, said| said);
                answer(*key, said);
            }
        }
    }
}

/// The full verdict on a check under a plain meter.
pub(super) fn verdict_on(
    store: &MemoryStore,
    plain: &PlainMeter,
    line: PlainLine<'_>,
    check: &Check<'_>,
    now: Time,
) -> Verdict {
    let Engine::Meter(meter) = check.limit.engine() else { unreachable!("only meters are plain") };
    let decided = store.decide_plain(
        plain,
        line,
        check.cost,
        now,
        || false,
        |state, answer| {
            let standing = meter.peek(&state, now);
            match answer {
                Ok(()) => Verdict::allow(meter.capacity(), standing),
                Err(retry) => Verdict::deny(meter.capacity(), standing, retry),
            }
        },
    );
    decided.expect("always up to date")
}
