//! The memory store: every state in this process.
//!
//! Requests on different keys never wait for each other, requests on one key are decided one
//! after the other, and several checks are decided under all their locks, so that two requests
//! can never both take the last token and no request is charged in part.
//!
//! Nothing runs in the background. Keys that are full again are dropped as the table needs their
//! slots, and a maximum number of keys and of bytes bounds the rest ([`capacity`], [`budget`]): at the
//! maximum, the key that owes least is evicted, so a flood of new keys does not erase debts.
//!
//! States are stored in slots of three classes ([`slot_class`]): narrow and wide slots in hash
//! tables ([`table`], [`chain`], [`line`]), boxed ones in a sharded map ([`boxed`]). A request locks
//! its slots ([`run`], [`locked_slots`]) and decides on them
//! ([`account::run_on`](crate::account::run_on)); a single plain meter takes a fast path
//! ([`plain_meter`](self::plain_meter)). A [`snapshot`] saves all states to a file.

mod boxed;
mod budget;
mod capacity;
mod chain;
mod line;
mod locked_slots;
mod plain_meter;
mod run;
mod run_single;
mod segments;
mod slot_class;
mod slot_handle;
pub mod snapshot;
mod table;
mod table_hash;
mod table_slot;

use tollgate_core::{Span, Time, Verdict};

use self::boxed::BoxedStates;
use self::locked_slots::LockedSlots;
pub(crate) use self::slot_class::plain_meter;
use self::slot_handle::SlotHandle;
use self::table::Table;
use crate::key::{CounterHasher, Fingerprinter};
use crate::store::{Action, Check, CounterId, SharedText, SharedTexts, Store, StoreCall};
use crate::store_error::StoreError;
use crate::sync::{AtomicU64, Ordering};
use crate::{Clock, Key, Limit, Verdicts};

/// The number of cache misses in flight at once: enough for any memory system.
const BATCH: usize = 16;
/// The default maximum number of keys: about half a gigabyte of meters.
const DEFAULT_MAX_KEYS: u64 = 1 << 24;

/// A store with its states in this process, which decides without waiting.
///
/// ```
/// use tollgate::{CounterId, Check, Limit, MemoryStore};
///
/// let store = MemoryStore::new().max_keys(1_000_000);
/// let limit: Limit = "5/min".parse()?;
/// let login = CounterId::new(0);
/// let verdict = store.decide_one_now(&Check::new(login, "ann", &limit, 1));
/// assert_eq!(verdict.remaining, 4);
/// assert_eq!(store.len(), 1);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    fingerprinter: Fingerprinter,
    max_keys: u64,
    max_memory: u64,
    narrow: Table<8, 1>,
    wide: Table<16, 3>,
    boxed: BoxedStates,
    evictions: AtomicU64,
}

impl MemoryStore {
    /// Creates an empty store on the system clock.
    pub fn new() -> MemoryStore {
        MemoryStore {
            clock: Clock::system(),
            fingerprinter: Fingerprinter::default(),
            max_keys: DEFAULT_MAX_KEYS,
            max_memory: budget::DEFAULT_MAX_MEMORY,
            narrow: Table::new(),
            wide: Table::new(),
            boxed: BoxedStates::new(),
            evictions: AtomicU64::new(0),
        }
    }

    /// Sets the maximum number of keys (16 M unless set).
    ///
    /// At the maximum, a new key evicts the key that owes least.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new().max_keys(100);
    /// let limit: Limit = "10/h".parse()?;
    /// for user in 0..1_000_u64 {
    ///     store.decide_one_now(&Check::new(CounterId::new(0), user, &limit, 1));
    /// }
    /// assert!(store.len() <= 100);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn max_keys(mut self, max_keys: u64) -> MemoryStore {
        self.max_keys = max_keys.max(1);
        self
    }

    /// Sets the clock.
    pub fn clock(mut self, clock: impl Into<Clock>) -> MemoryStore {
        self.clock = clock.into();
        self
    }

    /// Returns the current time of the store.
    #[inline]
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the clock of the store.
    pub(crate) fn clock_ref(&self) -> &Clock {
        &self.clock
    }

    /// Returns the number of keys, including those that are full again and not swept yet.
    pub fn len(&self) -> u64 {
        self.narrow.len() + self.wide.len() + self.boxed.len()
    }

    /// Returns whether the store has no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many keys were evicted because the store was full.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new().max_keys(1);
    /// let limit: Limit = "10/h".parse()?;
    /// for user in ["ann", "bob"] {
    ///     store.decide_one_now(&Check::new(CounterId::new(0), user, &limit, 1));
    /// }
    /// assert_eq!(store.evictions(), 1);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn evictions(&self) -> u64 {
        self.evictions.load(Ordering::Relaxed)
    }

    /// Drops all keys that are full again; returns how many there were.
    ///
    /// The store does this by itself as it needs memory; calling it when idle is never required.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{CounterId, Check, Limit, MemoryStore, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let store = MemoryStore::new().clock(&clock);
    /// let limit: Limit = "10/s".parse()?;
    /// store.decide_one_now(&Check::new(CounterId::new(0), "ann", &limit, 1));
    /// assert_eq!(store.sweep(), 0);
    /// clock.advance(Duration::from_millis(100)); // ann's budget is full again
    /// assert_eq!(store.sweep(), 1);
    /// assert!(store.is_empty());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn sweep(&self) -> u64 {
        let now = self.now();
        let ns = now.as_nanos();
        self.narrow.sweep(ns) + self.wide.sweep(ns) + self.boxed.sweep(now)
    }

    /// Returns whether `key` has a state in `counter` under `limit`.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h".parse()?);
    /// store.decide_one_now(&Check::new(CounterId::new(0), "ann", &limit, 1));
    /// assert!(store.contains(CounterId::new(0), "ann".into(), &limit));
    /// assert!(!store.contains(CounterId::new(1), "ann".into(), &limit));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn contains(&self, counter: CounterId, key: Key<'_>, limit: &Limit) -> bool {
        let handle = SlotHandle::new(self, counter, key, limit);
        LockedSlots::new(self, &[], &mut [handle]).contains(0, self.now())
    }

    /// Decides one check.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let (store, limit): (_, Limit) = (MemoryStore::new(), "10/h".parse()?);
    /// let check = Check::new(CounterId::new(0), "ann", &limit, 8);
    /// assert_eq!(store.decide_one_now(&check).remaining, 2);
    /// assert!(!store.decide_one_now(&check).allowed);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn decide_one_now(&self, check: &Check<'_>) -> Verdict {
        self.decide_one_at(check, self.now())
    }

    /// Decides several checks as one: all of them are charged, or none.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let (store, account, ip) = (MemoryStore::new(), CounterId::new(0), CounterId::new(1));
    /// let (few, many): (Limit, Limit) = ("1/h".parse()?, "100/h".parse()?);
    /// let checks = [Check::new(account, "ann", &few, 1), Check::new(ip, "192.0.2.7", &many, 1)];
    /// assert!(store.decide_now(&checks).iter().all(|verdict| verdict.allowed));
    /// let verdicts = store.decide_now(&checks); // refused by the account's limit
    /// assert_eq!((verdicts[0].allowed, verdicts[1].remaining), (false, 99));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn decide_now(&self, checks: &[Check<'_>]) -> Verdicts {
        self.run_at(StoreCall { action: Action::Take { max_wait: Span::ZERO }, checks }, self.now())
    }

    /// Decides one check at `now`.
    #[inline]
    fn decide_one_at(&self, check: &Check<'_>, now: Time) -> Verdict {
        match self.plain(check) {
            Some((plain, line)) => self.decide_plain(plain, line, check, now),
            None => self.decide_single(check, now),
        }
    }

    /// Decides a check that the fast path cannot decide.
    #[inline(never)]
    fn decide_single(&self, check: &Check<'_>, now: Time) -> Verdict {
        let action = Action::Take { max_wait: Span::ZERO };
        match check.previous {
            None => self.run_check_unless(action, check, now, || false).expect("always up to date"),
            Some(_) => {
                self.run_at(StoreCall { action, checks: std::slice::from_ref(check) }, now)[0]
            }
        }
    }

    /// Decides many independent checks, each by itself, in the order of `checks`.
    ///
    /// The clock is read once, and the cache misses of all checks overlap.
    ///
    /// ```
    /// use tollgate::{CounterId, Check, Limit, MemoryStore};
    /// let store = MemoryStore::new();
    /// let limit: Limit = "1/s".parse()?;
    /// let checks = ["ann", "bob", "ann"].map(|key| Check::new(CounterId::new(0), key, &limit, 1));
    /// let mut allowed = vec![];
    /// store.decide_each_now(&checks, |verdict| allowed.push(verdict.allowed));
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn decide_each_now(&self, checks: &[Check<'_>], mut on_verdict: impl FnMut(Verdict)) {
        let now = self.now();
        for checks in checks.chunks(BATCH) {
            let mut plains = [None; BATCH];
            for (plain, check) in plains.iter_mut().zip(checks) {
                *plain = self.plain(check);
            }
            for (check, plain) in checks.iter().zip(plains) {
                on_verdict(match plain {
                    Some((plain, line)) => self.decide_plain(plain, line, check, now),
                    None => self.decide_single(check, now),
                });
            }
        }
    }

    /// Returns the hasher of one counter's keys.
    pub(crate) fn hasher(&self, counter: CounterId) -> CounterHasher {
        self.fingerprinter.hasher(counter)
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

impl<S: Store> Store for std::sync::Arc<S> {
    fn run(
        &self,
        call: StoreCall<'_>,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        S::run(self, call)
    }

    fn run_while(
        &self,
        call: StoreCall<'_>,
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

    fn share_text(
        &self,
        text: SharedText<'_>,
    ) -> impl Future<Output = Result<Option<SharedTexts>, StoreError>> + Send {
        S::share_text(self, text)
    }
}

impl Store for MemoryStore {
    async fn run(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        Ok(self.run_at(call, self.now()))
    }

    async fn run_while(
        &self,
        call: StoreCall<'_>,
        current: impl Fn() -> bool + Send,
    ) -> Result<Option<Verdicts>, StoreError> {
        Ok(self.run_unless(call, self.now(), || !current()))
    }
}
