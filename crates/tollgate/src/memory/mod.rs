//! The memory store: every state in this process.
//!
//! Requests on different keys never wait for each other, requests on one key are decided one
//! after the other, and several checks are decided under all their locks, so that two requests
//! can never both take the last token and no request is charged in part.
//!
//! Nothing runs in the background. Keys that are as good as new are dropped as the table needs
//! their room, and a cap bounds the rest: at the cap, the key that owes least gives way, so
//! nobody can buy forgiveness by flooding the table with new keys.

mod cold;
mod line;
mod locks;
mod room;
mod slab;
mod table;

use tollgate_core::{Algorithm, Meter, Span, Time, Verdict};

use self::cold::Cold;
use self::locks::{Locks, Seat};
pub(crate) use self::room::narrow_meter;
use self::room::Room;
pub(crate) use self::table::Place;
use self::table::Table;
use crate::account;
use crate::key::{Fingerprint, Fingerprinter};
use crate::store::{Action, Bucket, Call, Check, Store, StoreError};
use crate::{Clock, Key, Limit, Verdicts};

/// Cache misses kept in flight at once: enough for any memory system.
const BATCH: usize = 16;
/// How many keys a store holds unless told otherwise: about half a gigabyte of meters.
const DEFAULT_MAX_KEYS: u64 = 1 << 24;

/// States in this process, decided without waiting.
///
/// ```
/// use tollgate::{Bucket, Check, Limit, MemoryStore};
///
/// let store = MemoryStore::new().max_keys(1_000_000);
/// let limit: Limit = "5/min".parse()?;
/// let login = Bucket::new(0);
/// let verdict = store.decide_one(&Check::new(login, "ann", &limit, 1));
/// assert_eq!(verdict.remaining, 4);
/// assert_eq!(store.len(), 1);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    fingerprinter: Fingerprinter,
    max_keys: u64,
    narrow: Table<8, 1>,
    wide: Table<16, 3>,
    cold: Cold,
}

impl MemoryStore {
    /// An empty store on the system's clock.
    pub fn new() -> MemoryStore {
        MemoryStore {
            clock: Clock::system(),
            fingerprinter: Fingerprinter::default(),
            max_keys: DEFAULT_MAX_KEYS,
            narrow: Table::new(),
            wide: Table::new(),
            cold: Cold::new(),
        }
    }

    /// Bounds the number of keys (16 M unless set).
    pub fn max_keys(mut self, max_keys: u64) -> MemoryStore {
        self.max_keys = max_keys.max(1);
        self
    }

    /// Tells the time by `clock`.
    pub fn clock(mut self, clock: impl Into<Clock>) -> MemoryStore {
        self.clock = clock.into();
        self
    }

    /// What time it is for this store.
    #[inline]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn its_clock(&self) -> &Clock {
        &self.clock
    }

    /// How many keys are held. Some may be as good as new and only wait to be swept.
    pub fn len(&self) -> u64 {
        self.narrow.len() + self.wide.len() + self.cold.len()
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every key that is as good as new; returns how many there were. Never needed, but
    /// a quiet moment is a good time.
    pub fn sweep(&self) -> u64 {
        let now = self.now();
        let ns = now.as_nanos();
        self.narrow.sweep(ns) + self.wide.sweep(ns) + self.cold.sweep(now)
    }

    /// Whether anything is remembered for `key` in `bucket` under `limit`.
    pub fn contains(&self, bucket: Bucket, key: Key<'_>, limit: &Limit) -> bool {
        let seat = Seat::of(self, bucket, key, limit);
        let mut locks = Locks::default();
        locks.want(seat);
        locks.hold(self).has(seat)
    }

    /// Decides one check.
    #[inline]
    pub fn decide_one(&self, check: &Check<'_>) -> Verdict {
        self.decide_one_at(check, self.now())
    }

    #[inline]
    fn decide_one_at(&self, check: &Check<'_>, now: Time) -> Verdict {
        match self.plain(check) {
            Some((meter, place)) => self.decide_plain(meter, place, check.cost, now, |v| v),
            None => self.decide_other(check, now),
        }
    }

    #[inline(never)]
    pub(crate) fn decide_other(&self, check: &Check<'_>, now: Time) -> Verdict {
        let action = Action::Take { max_wait: Span::ZERO };
        self.run_at(Call { action, checks: std::slice::from_ref(check) }, now)[0]
    }

    /// Where the states of `key` in `bucket` are.
    #[inline]
    pub(crate) fn place(&self, bucket: Bucket, key: Key<'_>) -> Place {
        Place::of(self.fingerprinter.of(bucket.number(), key))
    }

    /// The meter and the place of a check that needs no more than one line.
    #[inline]
    fn plain<'a>(&self, check: &Check<'a>) -> Option<(&'a Meter, Place)> {
        let meter = room::narrow_meter(check.limit).filter(|_| check.former.is_none())?;
        Some((meter, self.place(check.bucket, check.key)))
    }

    /// The everyday case, a plain meter on one key: one lock, one line. The verdict is handed
    /// to `say` and all of this inlined, so that what a caller does not ask is not computed.
    #[inline(always)]
    pub(crate) fn decide_plain<R>(
        &self,
        meter: &Meter,
        place: Place,
        cost: u64,
        now: Time,
        say: impl FnOnce(Verdict) -> R,
    ) -> R {
        let line = self.narrow.lock(place);
        let Some(slot) = line.find(place) else {
            drop(line);
            return say(self.first_of_plain(meter, place, cost, now));
        };
        let mut entry = slot.entry();
        let before = room::from_narrow(meter, entry.nibble, entry.words);
        let mut state = before;
        let verdict = meter.attempt(&mut state, now, cost, Span::ZERO);
        if verdict.allowed {
            (entry.nibble, entry.words) = room::to_narrow(state);
            slot.set(&entry);
            return say(verdict);
        }
        drop(line);
        say(Verdict::deny(meter.capacity(), meter.peek(&before, now), verdict.retry))
    }

    /// A key not seen before, or forgotten.
    #[inline(never)]
    fn first_of_plain(&self, meter: &Meter, place: Place, cost: u64, now: Time) -> Verdict {
        let mut state = meter.fresh(now);
        let verdict = meter.reserve(&mut state, now, cost, Span::ZERO);
        if !verdict.allowed || cost == 0 {
            return verdict;
        }
        let (nibble, words) = room::to_narrow(state);
        self.make_room(Room::Narrow, words[0]);
        let line = self.narrow.lock(place);
        // Another request may have come first.
        if line.find(place).is_some() {
            drop(line);
            return self.decide_plain(meter, place, cost, now, |verdict| verdict);
        }
        line.insert(place, nibble, words, now.as_nanos());
        drop(line);
        self.narrow.tend(now.as_nanos());
        verdict
    }

    /// Decides many independent requests, each on its own: one look at the clock, and the cache
    /// misses of all of them overlap. Answers in the order of `checks`.
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new();
    /// let limit: Limit = "1/s".parse()?;
    /// let checks = ["ann", "bob", "ann"].map(|key| Check::new(Bucket::new(0), key, &limit, 1));
    /// let mut allowed = vec![];
    /// store.decide_each(&checks, |verdict| allowed.push(verdict.allowed));
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn decide_each(&self, checks: &[Check<'_>], mut answer: impl FnMut(Verdict)) {
        let now = self.now();
        for checks in checks.chunks(BATCH) {
            let mut plain = [None; BATCH];
            for (plain, check) in plain.iter_mut().zip(checks) {
                *plain = self.plain(check);
                plain.iter().for_each(|(_, place)| self.narrow.touch(*place));
            }
            for (check, plain) in checks.iter().zip(plain) {
                answer(match plain {
                    Some((meter, place)) => {
                        self.decide_plain(meter, place, check.cost, now, |verdict| verdict)
                    }
                    None => self.decide_other(check, now),
                });
            }
        }
    }

    /// The same for one plain meter and many keys, with nothing computed that is not asked.
    pub(crate) fn decide_each_plain(
        &self,
        meter: &Meter,
        bucket: Bucket,
        keys: &[Key<'_>],
        mut answer: impl FnMut(Verdict),
    ) {
        let now = self.now();
        for keys in keys.chunks(BATCH) {
            let mut places = [Place::default(); BATCH];
            for (place, key) in places.iter_mut().zip(keys) {
                *place = self.place(bucket, *key);
                self.narrow.touch(*place);
            }
            for place in &places[..keys.len()] {
                self.decide_plain(meter, *place, 1, now, &mut answer);
            }
        }
    }

    /// Runs a call at `now`.
    pub(crate) fn run_at(&self, call: Call<'_>, now: Time) -> Verdicts {
        let seats = locks::seats(self, call.checks);
        let mut locks = Locks::default();
        for seats in &seats {
            seats.iter().for_each(|seat| locks.want(*seat));
        }
        let verdicts = {
            let held = &mut locks.hold(self);
            let mut accounts: account::Accounts<'_> = call
                .checks
                .iter()
                .zip(&seats)
                .map(|(check, seats)| held.open(check, seats, now))
                .collect();
            let verdicts = account::run(call.action, &mut accounts, now);
            for (account, seats) in accounts.into_iter().zip(&seats) {
                held.close(account, seats, call.action, now);
            }
            verdicts
        };
        self.narrow.tend(now.as_nanos());
        self.wide.tend(now.as_nanos());
        self.keep_cap(seats.first().and_then(|seats| seats.first()));
        verdicts
    }

    /// Makes a key give way if there is no room for one more.
    #[inline]
    fn make_room(&self, room: Room, owes: u64) {
        if self.len() >= self.max_keys {
            self.evict(room, owes, [0, 0]);
        }
    }

    /// Makes keys give way until the cap is kept.
    fn keep_cap(&self, seat: Option<&Seat>) {
        let Some(seat) = seat else { return };
        while self.len() > self.max_keys {
            if !self.evict(seat.room, 0, seat.fingerprint) {
                return;
            }
        }
    }

    /// One key gives way, in the room that wants the space or else in the fullest.
    #[cold]
    fn evict(&self, room: Room, owes: u64, near: Fingerprint) -> bool {
        let from = |room: Room| match room {
            Room::Narrow => self.narrow.len() > 0 && self.narrow.evict(owes),
            Room::Wide => self.wide.len() > 0 && self.wide.evict(owes),
            Room::Cold => self.cold.len() > 0 && self.cold.evict(near),
            Room::Nowhere => false,
        };
        from(room) || from(Room::Narrow) || from(Room::Wide) || from(Room::Cold)
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl<S: Store> Store for std::sync::Arc<S> {
    fn run(&self, call: Call<'_>) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        S::run(self, call)
    }
}

impl Store for MemoryStore {
    async fn run(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        Ok(self.run_at(call, self.now()))
    }
}
