//! The memory store: every state in this process.
//!
//! Requests on different keys never wait for each other, requests on one key are decided one
//! after the other, and several checks are decided under all their locks, so that two requests
//! can never both take the last token and no request is charged in part.
//!
//! Nothing runs in the background. Keys that are as good as new are dropped as the table needs
//! their room, and a cap bounds the rest: at the cap, the key that owes least gives way, so
//! nobody can buy forgiveness by flooding the table with new keys.

mod chain;
mod cold;
mod line;
mod locks;
mod place;
mod plain;
mod room;
mod run;
mod seat;
mod slab;
mod spot;
mod table;

use tollgate_core::{Span, Time, Verdict};

use self::cold::Cold;
use self::locks::Held;
pub(crate) use self::room::plain_meter;
use self::seat::Seat;
use self::table::Table;
use crate::key::{BucketHasher, Fingerprint, Fingerprinter};
use crate::store::{Action, Bucket, Call, Check, Note, Notes, Store};
use crate::store_error::StoreError;
use crate::sync::{AtomicU64, Ordering};
use crate::{Clock, Key, Limit, Verdicts};

/// Cache misses kept in flight at once: enough for any memory system.
const BATCH: usize = 16;
/// Checks of one request that are decided without asking for memory.
const MANY: usize = 6;
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
    evictions: AtomicU64,
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
            evictions: AtomicU64::new(0),
        }
    }

    /// Bounds the number of keys (16 M unless set).
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new().max_keys(100);
    /// let limit: Limit = "10/h".parse()?;
    /// for user in 0..1_000_u64 {
    ///     store.decide_one(&Check::new(Bucket::new(0), user, &limit, 1));
    /// }
    /// assert!(store.len() <= 100);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
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

    /// How many keys gave way to others because the store was full.
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new().max_keys(1);
    /// let limit: Limit = "10/h".parse()?;
    /// for user in ["ann", "bob"] {
    ///     store.decide_one(&Check::new(Bucket::new(0), user, &limit, 1));
    /// }
    /// assert_eq!(store.evictions(), 1);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Drops every key that is as good as new; returns how many there were. Never needed, but
    /// a quiet moment is a good time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Bucket, Check, Limit, MemoryStore, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let store = MemoryStore::new().clock(&clock);
    /// let limit: Limit = "10/s".parse()?;
    /// store.decide_one(&Check::new(Bucket::new(0), "ann", &limit, 1));
    /// assert_eq!(store.sweep(), 0);
    /// clock.advance(Duration::from_millis(100)); // ann has everything back
    /// assert_eq!(store.sweep(), 1);
    /// assert!(store.is_empty());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn sweep(&self) -> u64 {
        let now = self.now();
        let ns = now.as_nanos();
        self.narrow.sweep(ns) + self.wide.sweep(ns) + self.cold.sweep(now)
    }

    /// Whether anything is remembered for `key` in `bucket` under `limit`.
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit, MemoryStore};
    /// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h".parse()?);
    /// store.decide_one(&Check::new(Bucket::new(0), "ann", &limit, 1));
    /// assert!(store.contains(Bucket::new(0), "ann".into(), &limit));
    /// assert!(!store.contains(Bucket::new(1), "ann".into(), &limit));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn contains(&self, bucket: Bucket, key: Key<'_>, limit: &Limit) -> bool {
        let seat = Seat::of(self, bucket, key, limit);
        Held::new(self, &mut [seat]).has(0, self.now())
    }

    /// Decides one check.
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit, MemoryStore};
    /// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h".parse()?);
    /// let check = Check::new(Bucket::new(0), "ann", &limit, 8);
    /// assert_eq!(store.decide_one(&check).remaining, 2);
    /// assert!(!store.decide_one(&check).allowed);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn decide_one(&self, check: &Check<'_>) -> Verdict {
        self.decide_one_at(check, self.now())
    }

    /// Decides several checks as one: all of them are charged, or none.
    ///
    /// ```
    /// use tollgate::{Bucket, Check, Limit, MemoryStore};
    /// let (store, account, ip) = (MemoryStore::new(), Bucket::new(0), Bucket::new(1));
    /// let (few, many): (Limit, Limit) = ("1/h".parse()?, "100/h".parse()?);
    /// let checks = [Check::new(account, "ann", &few, 1), Check::new(ip, "192.0.2.7", &many, 1)];
    /// assert!(store.decide_all(&checks).iter().all(|verdict| verdict.allowed));
    /// let verdicts = store.decide_all(&checks); // ann's account refuses
    /// assert_eq!((verdicts[0].allowed, verdicts[1].remaining), (false, 99));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn decide_all(&self, checks: &[Check<'_>]) -> Verdicts {
        self.run_at(Call { action: Action::Take { max_wait: Span::ZERO }, checks }, self.now())
    }

    #[inline]
    fn decide_one_at(&self, check: &Check<'_>, now: Time) -> Verdict {
        match self.plain(check) {
            Some((plain, line)) => plain::verdict_on(self, plain, line, check, now),
            None => self.decide_other(check, now),
        }
    }

    #[inline(never)]
    fn decide_other(&self, check: &Check<'_>, now: Time) -> Verdict {
        let action = Action::Take { max_wait: Span::ZERO };
        self.run_at(Call { action, checks: std::slice::from_ref(check) }, now)[0]
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
            let mut plains = [None; BATCH];
            for (plain, check) in plains.iter_mut().zip(checks) {
                *plain = self.plain(check);
            }
            for (check, plain) in checks.iter().zip(plains) {
                answer(match plain {
                    Some((plain, line)) => plain::verdict_on(self, plain, line, check, now),
                    None => self.decide_other(check, now),
                });
            }
        }
    }

    /// Hashes the keys of one bucket.
    pub(crate) fn hasher(&self, bucket: Bucket) -> BucketHasher {
        self.fingerprinter.for_bucket(bucket)
    }

    /// Makes a key give way if there is no room for one more.
    #[inline]
    fn make_room(&self, owes: u64) {
        if self.len() >= self.max_keys {
            self.evict(owes, Fingerprint::default());
        }
    }

    /// Makes keys give way until the cap is kept.
    #[inline]
    fn keep_cap(&self, near: Fingerprint) {
        while self.len() > self.max_keys && self.evict(0, near) {}
    }

    /// One key gives way, in the fullest room: where it has most to be compared with.
    #[cold]
    fn evict(&self, owes: u64, near: Fingerprint) -> bool {
        let (narrow, wide, cold) = (self.narrow.len(), self.wide.len(), self.cold.len());
        let gone = match narrow.max(wide).max(cold) {
            0 => false,
            most if most == narrow => self.narrow.evict(owes),
            most if most == wide => self.wide.evict(owes),
            _ => self.cold.evict(near),
        };
        self.evictions.fetch_add(gone.into(), Ordering::Relaxed);
        gone
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

    fn run_while(
        &self,
        call: Call<'_>,
        current: impl Fn() -> bool + Send,
    ) -> impl Future<Output = Result<Option<Verdicts>, StoreError>> + Send {
        S::run_while(self, call, current)
    }

    fn nodes(&self) -> u64 {
        S::nodes(self)
    }

    fn is_shared(&self) -> bool {
        S::is_shared(self)
    }

    fn note(
        &self,
        note: Note<'_>,
    ) -> impl Future<Output = Result<Option<Notes>, StoreError>> + Send {
        S::note(self, note)
    }
}

impl Store for MemoryStore {
    async fn run(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        Ok(self.run_at(call, self.now()))
    }

    async fn run_while(
        &self,
        call: Call<'_>,
        current: impl Fn() -> bool + Send,
    ) -> Result<Option<Verdicts>, StoreError> {
        Ok(self.run_unless(call, self.now(), || !current()))
    }
}
