//! The limiter with keys: a budget for each user, address or tenant.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;
use tollgate_core::{Carry, Span, Time, Verdict};

use crate::counters::{self, Counters, OwnedCounters, new_lease};
use crate::fast_path::FastPath;
use crate::key_counters::KeyCounters;
use crate::limits::{Family, Limits};
use crate::store::{Action, Store, StoreCall};
use crate::store_error::StoreError;
use crate::sync::{AtomicBool, Ordering};
use crate::{Denied, Hold, Key, Limit, MemoryStore, Permit, Verdicts};

/// A limiter with a budget for each key, under limits that must all allow a request.
///
/// Clones share the budgets. Keys need no registration and no cleanup: the state of a key is
/// dropped once its budget is full again.
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
pub struct KeyedLimiter<S = MemoryStore>(Arc<KeyedLimiterState<S>>);

/// The state that all clones of a limiter share.
#[derive(Debug)]
struct KeyedLimiterState<S> {
    store: S,
    /// The initial limits, which need no atomic access. Most limiters never have others.
    first: Limits,
    /// Whether the limits were changed.
    changed: AtomicBool,
    /// The active limits, once they were changed.
    current: ArcSwapOption<Limits>,
    fast_path: Option<FastPath>,
}

impl<S> Clone for KeyedLimiter<S> {
    fn clone(&self) -> KeyedLimiter<S> {
        KeyedLimiter(self.0.clone())
    }
}

impl<S> KeyedLimiterState<S> {
    fn new(limits: SmallVec<[Limit; 2]>, store: S, family: Family) -> KeyedLimiterState<S> {
        KeyedLimiterState {
            store,
            first: Limits::new(family, limits),
            changed: AtomicBool::new(false),
            current: ArcSwapOption::empty(),
            fast_path: None,
        }
    }
}

impl<S> KeyedLimiter<S> {
    /// Creates a limiter on any store.
    pub(crate) fn with(
        limits: SmallVec<[Limit; 2]>,
        store: S,
        name: Option<Box<str>>,
    ) -> KeyedLimiter<S> {
        let family = name.map_or_else(Family::next, Family::Named);
        KeyedLimiter(Arc::new(KeyedLimiterState::new(limits, store, family)))
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// Calls `read` with the active limits.
    pub(crate) fn limits<R>(&self, read: impl FnOnce(&Limits) -> R) -> R {
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
    /// Decides a request of `cost` for `key` on any store; returns one verdict for each limit.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Store, StoreError};
    /// async fn is_allowed(api: &KeyedLimiter<impl Store>, user: &str) -> Result<bool, StoreError> {
    ///     Ok(api.decide(user, 1).await?.iter().all(|verdict| verdict.allowed))
    /// }
    /// ```
    pub async fn decide(&self, key: impl Into<Key<'_>>, cost: u64) -> Result<Verdicts, StoreError> {
        self.run(Action::Take { max_wait: Span::ZERO }, key, cost).await
    }

    /// Runs any action on the counters of `key`: peek, spend, refund, reset or take with a wait.
    ///
    /// ```
    /// # use tollgate::{Action, KeyedLimiter, Store, StoreError};
    /// async fn left(api: &KeyedLimiter<impl Store>, user: &str) -> Result<u64, StoreError> {
    ///     Ok(api.run(Action::Peek, user, 0).await?[0].remaining)
    /// }
    /// ```
    pub async fn run(
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
        self.0.store.run(StoreCall { action, checks: &checks }).await
    }
}

impl KeyedLimiter {
    /// Creates a limiter with a memory store of its own.
    pub(crate) fn in_process(limits: SmallVec<[Limit; 2]>, store: MemoryStore) -> KeyedLimiter {
        let mut state = KeyedLimiterState::new(limits, store, Family::OWN_STORE);
        state.fast_path = FastPath::new(&state.first, &state.store);
        KeyedLimiter(Arc::new(state))
    }

    /// Returns whether the limits were changed.
    #[inline(always)]
    fn changed(&self) -> bool {
        self.0.changed.load(Ordering::Acquire)
    }

    /// Returns the fast path, unless the limits were changed.
    #[inline]
    fn fast_path(&self) -> Option<&FastPath> {
        self.0.fast_path.as_ref().filter(|_| !self.changed())
    }

    /// Charges one to `key`, or returns when to retry.
    ///
    /// For a concurrency limit, call [`acquire`](KeyedLimiter::acquire) instead: a permit that
    /// `check` takes is released only when its lease expires.
    #[inline]
    pub fn check<'k>(&self, key: impl Into<Key<'k>>) -> Result<(), Denied> {
        self.check_n(key, 1)
    }

    /// Charges `cost` to `key`, or nothing.
    #[inline]
    pub fn check_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Result<(), Denied> {
        let key = key.into();
        if let Some(fast_path) = self.fast_path()
            && let Some(result) = fast_path.check(&self.0.store, key, cost, || self.changed())
        {
            return result;
        }
        self.key_counters(key)
            .run_on_limits(Action::Take { max_wait: Span::ZERO }, cost, None)
            .map(drop)
    }

    /// Charges one to each of `keys`, each decided by itself.
    ///
    /// This is much faster than one call for each: the clock is read once, and cache misses
    /// overlap.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::keyed(["1/s".parse::<Limit>()?]);
    /// let mut allowed = vec![];
    /// limiter.check_each(&["ann", "bob", "ann"].map(Into::into), |result| {
    ///     allowed.push(result.is_ok());
    /// });
    /// assert_eq!(allowed, [true, true, false]);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn check_each(&self, keys: &[Key<'_>], mut on_result: impl FnMut(Result<(), Denied>)) {
        let Some(fast_path) = self.fast_path() else {
            return keys.iter().for_each(|key| on_result(self.check(*key)));
        };
        let changed = || self.changed();
        fast_path.check_each(&self.0.store, keys, changed, |key, result| {
            on_result(result.unwrap_or_else(|| self.check(key)));
        });
    }

    /// Returns the state of `key`, and charges nothing. Of several limits, the tightest counts.
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
        self.key_counters(key.into()).adjust(Action::Peek, 0, 0)
    }

    /// Charges `amount` to `key` until the actual cost is known.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let tokens = Limiter::keyed(["10k tokens/day".parse::<Limit>()?]);
    /// let hold = tokens.reserve("acme", 4_000)?;
    /// hold.settle(12_000); // far more than the estimate: the difference becomes debt
    /// assert_eq!(tokens.peek("acme").remaining, 0);
    /// assert!(!tokens.peek("acme").allowed); // it is in debt
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve<'k>(&self, key: impl Into<Key<'k>>, amount: u64) -> Result<Hold, Denied> {
        let (key, lease) = (key.into(), new_lease());
        self.key_counters(key).run(Action::Take { max_wait: Span::ZERO }, amount, lease)?;
        Ok(Hold::new(self.owned(key), amount, lease, Hold::DEFAULT_EXPIRY))
    }

    /// Refunds `amount` to `key`, never above full.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::keyed(["10/h".parse::<Limit>()?]);
    /// limiter.check_n("ann", 4)?;
    /// assert_eq!(limiter.refund("ann", 3).remaining, 9);
    /// assert_eq!(limiter.refund("ann", 3).remaining, 10); // and not 12
    /// assert_eq!(limiter.len(), 0); // the state of a full key is dropped
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refund<'k>(&self, key: impl Into<Key<'k>>, amount: u64) -> Verdict {
        self.key_counters(key.into()).adjust(Action::Refund, amount, 0)
    }

    /// Waits until one is charged to `key`. Dropping the future returns its queue position.
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
        // Every limit allows a cost of one at some time.
        let _ = self.wait_n(key, 1).await;
    }

    /// Waits until `cost` is charged to `key`; an error means that the limits can never allow it.
    pub async fn wait_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Result<(), Denied> {
        counters::wait(&self.key_counters(key.into()), cost, Time::MAX).await
    }

    /// Waits up to `timeout` until one is charged to `key`.
    ///
    /// A longer wait is refused at once, and nothing is charged.
    pub async fn wait_timeout<'k>(
        &self,
        key: impl Into<Key<'k>>,
        timeout: Duration,
    ) -> Result<(), Denied> {
        let deadline = self.0.store.now() + timeout.into();
        counters::wait(&self.key_counters(key.into()), 1, deadline).await
    }

    /// Blocks the thread until one is charged to `key`.
    pub fn blocking_wait<'k>(&self, key: impl Into<Key<'k>>) {
        let _ = counters::blocking_wait(&self.key_counters(key.into()), 1, Time::MAX);
    }

    /// Blocks the thread up to `timeout` until one is charged to `key`, or refuses at once.
    pub fn blocking_wait_timeout<'k>(
        &self,
        key: impl Into<Key<'k>>,
        timeout: Duration,
    ) -> Result<(), Denied> {
        let deadline = self.0.store.now() + timeout.into();
        counters::blocking_wait(&self.key_counters(key.into()), 1, deadline)
    }

    /// Takes a permit of `key`'s concurrency limits, and charges one to its other limits.
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
        self.key_counters(key).run(Action::Take { max_wait: Span::ZERO }, 1, lease)?;
        Ok(Permit::new(self.owned(key), lease))
    }

    /// Removes the state of `key`, so that its budget is full.
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) {
        self.key_counters(key.into()).adjust(Action::Reset, 0, 0);
    }

    /// Returns the number of keys that have a state.
    pub fn len(&self) -> u64 {
        self.0.store.len()
    }

    /// Returns whether no key has a state.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces the limits; `carry` sets what becomes of the budget that a key has left.
    ///
    /// Limits are matched by position. The time this takes does not depend on the number of keys:
    /// each is carried over when it is next used, as of the time of the change. A key that was
    /// full again under the old limits begins full under the new ones.
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

    /// Returns the counters of one key, for guards that outlive the call.
    fn owned(&self, key: Key<'_>) -> OwnedCounters {
        OwnedCounters::Keyed(self.clone(), key.into())
    }

    /// Returns the counters of one key.
    pub(crate) fn key_counters<'a>(&'a self, key: Key<'a>) -> KeyCounters<'a> {
        KeyCounters { limiter: self, key }
    }
}
