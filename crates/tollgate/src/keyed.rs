//! The limiter with keys: a budget for each user, address, tenant or whatever else.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;
use tollgate_core::{Carry, Span, Time, Verdict};

use crate::counters::{self, Counters, OwnedCounters, new_lease};
use crate::denied::answer;
use crate::express::Express;
use crate::hold::DEFAULT_HOLD;
use crate::limits::{Family, Limits};
use crate::store::{Action, Call, Store};
use crate::store_error::StoreError;
use crate::sync::{AtomicBool, Ordering};
use crate::{Clock, Denied, Hold, Key, Limit, MemoryStore, Permit, Verdicts};

/// A budget for each key, under one or several limits that all must allow. Clones share it.
///
/// Keys need no registration and no cleaning up: one that has been idle long enough to be as
/// good as new is forgotten.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let login = Limiter::keyed(["5/min".parse::<Limit>()?, "20/h sliding".parse()?]);
/// for _ in 0..5 {
///     assert!(login.check("ann").is_ok());
/// }
/// assert!(login.check("ann").is_err());
/// assert!(login.check("bob").is_ok());
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Debug)]
pub struct KeyedLimiter<S = MemoryStore>(Arc<Shared<S>>);

#[derive(Debug)]
struct Shared<S> {
    store: S,
    /// The limits it was made with: what nearly every limiter has all its life, and free to read.
    first: Limits,
    changed: AtomicBool,
    current: ArcSwapOption<Limits>,
    express: Option<Express>,
}

impl<S> Clone for KeyedLimiter<S> {
    fn clone(&self) -> KeyedLimiter<S> {
        KeyedLimiter(self.0.clone())
    }
}

/// Counts limiters, so that two of them never share a counter by accident.
static LIMITERS: AtomicU64 = AtomicU64::new(0);

impl<S> Shared<S> {
    fn new(limits: SmallVec<[Limit; 2]>, store: S, name: Option<Box<str>>) -> Shared<S> {
        let numbered = || Family::Numbered(LIMITERS.fetch_add(1, Ordering::Relaxed));
        let family = name.map_or_else(numbered, Family::Named);
        Shared {
            store,
            first: Limits::new(family, limits),
            changed: AtomicBool::new(false),
            current: ArcSwapOption::empty(),
            express: None,
        }
    }
}

impl<S> KeyedLimiter<S> {
    pub(crate) fn with(
        limits: SmallVec<[Limit; 2]>,
        store: S,
        name: Option<Box<str>>,
    ) -> KeyedLimiter<S> {
        KeyedLimiter(Arc::new(Shared::new(limits, store, name)))
    }

    /// The store that decides.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    fn limits<R>(&self, read: impl FnOnce(&Limits) -> R) -> R {
        if !self.0.changed.load(Ordering::Acquire) {
            return read(&self.0.first);
        }
        match &*self.0.current.load() {
            Some(limits) => read(limits),
            None => read(&self.0.first),
        }
    }
}

impl<S: Store> KeyedLimiter<S> {
    /// Decides a request of `cost` for `key`, wherever the store is: one verdict for each limit.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Store, StoreError};
    /// async fn ask(api: &KeyedLimiter<impl Store>, user: &str) -> Result<bool, StoreError> {
    ///     Ok(api.decide(user, 1).await?.iter().all(|verdict| verdict.allowed))
    /// }
    /// ```
    pub async fn decide(&self, key: impl Into<Key<'_>>, cost: u64) -> Result<Verdicts, StoreError> {
        self.act(Action::Take { max_wait: Span::ZERO }, key, cost).await
    }

    /// Does something else to the counters of `key`: peek, spend, refund, reset, wait in line.
    ///
    /// ```
    /// # use tollgate::{Action, KeyedLimiter, Store, StoreError};
    /// async fn left(api: &KeyedLimiter<impl Store>, user: &str) -> Result<u64, StoreError> {
    ///     Ok(api.act(Action::Peek, user, 0).await?[0].remaining)
    /// }
    /// ```
    pub async fn act(
        &self,
        action: Action,
        key: impl Into<Key<'_>>,
        cost: u64,
    ) -> Result<Verdicts, StoreError> {
        let limits = match self.0.changed.load(Ordering::Acquire) {
            true => self.0.current.load_full(),
            false => None,
        };
        let limits = limits.as_deref().unwrap_or(&self.0.first);
        let checks = limits.checks(key.into(), cost, new_lease());
        self.0.store.run(Call { action, checks: &checks }).await
    }
}

impl KeyedLimiter {
    /// A limiter with a store of its own.
    pub(crate) fn in_process(limits: SmallVec<[Limit; 2]>, store: MemoryStore) -> KeyedLimiter {
        let mut shared = Shared::new(limits, store, None);
        shared.express = Express::new(&shared.first, &shared.store);
        KeyedLimiter(Arc::new(shared))
    }

    #[inline(always)]
    fn changed(&self) -> bool {
        self.0.changed.load(Ordering::Acquire)
    }

    #[inline]
    fn express(&self) -> Option<&Express> {
        self.0.express.as_ref().filter(|_| !self.changed())
    }

    /// Takes one for `key`, or says when to come back.
    ///
    /// A limit on concurrency wants [`acquire`](KeyedLimiter::acquire) instead: a place that `check` takes
    /// is given up only when its lease runs out.
    #[inline]
    pub fn check<'k>(&self, key: impl Into<Key<'k>>) -> Result<(), Denied> {
        self.check_n(key, 1)
    }

    /// Takes `cost` for `key` at once, or nothing.
    #[inline]
    pub fn check_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Result<(), Denied> {
        let key = key.into();
        if let Some(express) = self.express()
            && let Some(answer) = express.check(&self.0.store, key, cost, || self.changed())
        {
            return answer;
        }
        self.of(key).run(Action::Take { max_wait: Span::ZERO }, cost, new_lease()).map(drop)
    }

    /// Takes one for each of `keys`, each on its own. Much faster than one by one: the clock is
    /// read once, and waiting for memory overlaps.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::keyed(["1/s".parse::<Limit>()?]);
    /// let mut allowed = vec![];
    /// limiter.check_each(&["ann", "bob", "ann"].map(Into::into), |answer| {
    ///     allowed.push(answer.is_ok());
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn check_each(&self, keys: &[Key<'_>], mut answer: impl FnMut(Result<(), Denied>)) {
        let Some(express) = self.express() else {
            return keys.iter().for_each(|key| answer(self.check(*key)));
        };
        express.check_each(
            &self.0.store,
            keys,
            || self.changed(),
            |key, said| {
                answer(said.unwrap_or_else(|| self.check(key)));
            },
        );
    }

    /// How `key` stands, with nothing spent. Of several limits, the one closest to its end.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::keyed(["10/h".parse::<Limit>()?, "50/day".parse()?]);
    /// limiter.check("ann")?;
    /// assert_eq!(limiter.peek("ann").remaining, 9);
    /// assert_eq!(limiter.peek("bob").remaining, 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek<'k>(&self, key: impl Into<Key<'k>>) -> Verdict {
        self.of(key.into()).adjust(Action::Peek, 0, 0)
    }

    /// Takes `amount` for `key` until its true cost is known.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let tokens = Limiter::keyed(["10k tokens/day".parse::<Limit>()?]);
    /// let hold = tokens.reserve("acme", 4_000)?;
    /// hold.settle(12_000); // far more than was held: the difference is owed
    /// assert_eq!(tokens.peek("acme").remaining, 0);
    /// assert!(!tokens.peek("acme").allowed); // it is in debt
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve<'k>(&self, key: impl Into<Key<'k>>, amount: u64) -> Result<Hold, Denied> {
        let (key, lease) = (key.into(), new_lease());
        self.of(key).run(Action::Take { max_wait: Span::ZERO }, amount, lease)?;
        Ok(Hold::new(self.owned(key), amount, lease, DEFAULT_HOLD))
    }

    /// Gives `amount` back to `key`, never above full.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::keyed(["10/h".parse::<Limit>()?]);
    /// limiter.check_n("ann", 4)?;
    /// assert_eq!(limiter.refund("ann", 3).remaining, 9);
    /// assert_eq!(limiter.refund("ann", 3).remaining, 10); // and not 12
    /// assert_eq!(limiter.len(), 0); // a key that is full is forgotten
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund<'k>(&self, key: impl Into<Key<'k>>, amount: u64) -> Verdict {
        self.of(key.into()).adjust(Action::Refund, amount, 0)
    }

    /// Waits until `key` may take one. A future that is dropped gives its place in line back.
    ///
    /// ```
    /// # use tollgate::KeyedLimiter;
    /// async fn notify(limiter: &KeyedLimiter, user: &str) -> Result<(), tollgate::Denied> {
    ///     limiter.wait(user).await;
    ///     println!("to {user}");
    ///     limiter.wait_timeout(user, std::time::Duration::from_secs(5)).await // or refuse
    /// }
    /// ```
    pub async fn wait<'k>(&self, key: impl Into<Key<'k>>) {
        // Every limit lets a single one pass at some time.
        let _ = self.wait_n(key, 1).await;
    }

    /// Waits until `key` may take `cost`; an error means that it never can.
    pub async fn wait_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Result<(), Denied> {
        counters::wait(&self.of(key.into()), cost, Time::MAX).await
    }

    /// Waits until `key` may take one if that takes no longer than `timeout`; otherwise refuses
    /// at once and charges nothing.
    pub async fn wait_timeout<'k>(
        &self,
        key: impl Into<Key<'k>>,
        timeout: Duration,
    ) -> Result<(), Denied> {
        let deadline = self.0.store.now() + timeout.into();
        counters::wait(&self.of(key.into()), 1, deadline).await
    }

    /// [`wait`](KeyedLimiter::wait) for threads.
    pub fn blocking_wait<'k>(&self, key: impl Into<Key<'k>>) {
        let _ = counters::blocking_wait(&self.of(key.into()), 1, Time::MAX);
    }

    /// [`wait_timeout`](KeyedLimiter::wait_timeout) for threads.
    pub fn blocking_wait_timeout<'k>(
        &self,
        key: impl Into<Key<'k>>,
        timeout: Duration,
    ) -> Result<(), Denied> {
        let deadline = self.0.store.now() + timeout.into();
        counters::blocking_wait(&self.of(key.into()), 1, deadline)
    }

    /// Takes a place among those in flight for `key`, for limits on concurrency. Limits on
    /// rates beside it are charged one.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::keyed(["1 concurrent".parse::<Limit>()?]);
    /// let permit = limiter.acquire("ann")?;
    /// assert!(limiter.acquire("ann").is_err());
    /// assert!(limiter.acquire("bob").is_ok());
    /// drop(permit);
    /// assert!(limiter.acquire("ann").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire<'k>(&self, key: impl Into<Key<'k>>) -> Result<Permit, Denied> {
        let (key, lease) = (key.into(), new_lease());
        self.of(key).run(Action::Take { max_wait: Span::ZERO }, 1, lease)?;
        Ok(Permit::new(self.owned(key), lease))
    }

    /// Forgets what `key` has spent.
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) {
        self.of(key.into()).adjust(Action::Reset, 0, 0);
    }

    /// How many keys are remembered.
    pub fn len(&self) -> u64 {
        self.0.store.len()
    }

    /// Whether no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces the limits while running; `carry` says what becomes of what a key has left.
    /// Limits are matched by position.
    ///
    /// Takes no time, whatever the number of keys: each is carried over when it is next seen,
    /// as of the moment of the change. A key idle for so long that it was full again under the
    /// old limits begins full under the new ones.
    ///
    /// ```
    /// use tollgate::{Carry, Limit, Limiter};
    /// let limiter = Limiter::keyed(["100/day".parse::<Limit>()?]);
    /// limiter.check_n("ann", 70)?;
    /// limiter.change(["1k/day".parse()?], Carry::Additive);
    /// assert_eq!(limiter.peek("ann").remaining, 930);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn change(&self, limits: impl IntoIterator<Item = Limit>, carry: Carry) {
        let limits: SmallVec<[Limit; 2]> = limits.into_iter().collect();
        let now = self.0.store.now();
        self.0.current.rcu(|current| {
            let old = current.as_deref().unwrap_or(&self.0.first);
            Some(Arc::new(old.changed(limits.clone(), carry, now)))
        });
        self.0.changed.store(true, Ordering::Release);
    }

    fn owned(&self, key: Key<'_>) -> OwnedCounters {
        OwnedCounters::Keyed(self.clone(), key.into())
    }

    /// The counters of one key.
    pub(crate) fn of<'a>(&'a self, key: Key<'a>) -> OneKey<'a> {
        OneKey { limiter: self, key }
    }
}

/// One key of a limiter.
pub(crate) struct OneKey<'a> {
    limiter: &'a KeyedLimiter,
    key: Key<'a>,
}

impl Counters for OneKey<'_> {
    fn clock(&self) -> &Clock {
        self.limiter.0.store.its_clock()
    }

    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied> {
        let (limiter, store) = (self.limiter, &self.limiter.0.store);
        let attempt = |limits: &Limits| {
            let checks = limits.checks(self.key, cost, lease);
            // Once the key is locked, nobody can carry it over to other limits.
            let outdated = || limiter.limits(|now| !now.is_same(limits));
            let verdicts =
                store.run_unless(Call { action, checks: &checks }, store.now(), outdated)?;
            Some(answer(action, &verdicts, limits.all()))
        };
        loop {
            if let Some(answer) = limiter.limits(attempt) {
                return answer;
            }
        }
    }
}
