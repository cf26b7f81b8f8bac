//! Putting a limiter together.

use smallvec::SmallVec;

use crate::{Clock, KeyedLimiter, Limit, Limiter, MemoryStore, Store};

/// A limiter in the making.
///
/// ```
/// use tollgate::{Limit, Limiter, testing::ManualClock};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::builder()
///     .limit("10/s".parse::<Limit>()?)
///     .clock(&clock)
///     .max_keys(100_000)
///     .build_keyed();
/// assert!(limiter.check("ann").is_ok());
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until it is built"]
pub struct Builder<S = InProcess> {
    limits: SmallVec<[Limit; 2]>,
    store: S,
}

/// The store is a [`MemoryStore`] of the limiter's own.
///
/// ```
/// use tollgate::{Builder, InProcess, Limiter};
/// let builder: Builder<InProcess> = Limiter::builder();
/// ```
#[derive(Clone, Debug, Default)]
pub struct InProcess {
    clock: Option<Clock>,
    max_keys: Option<u64>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { limits: SmallVec::new(), store: InProcess::default() }
    }
}

impl<S> Builder<S> {
    /// Adds a limit. All limits must allow a request.
    pub fn limit(mut self, limit: Limit) -> Builder<S> {
        self.limits.push(limit);
        self
    }

    /// Adds several limits.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// let limiter = Limiter::builder().limits(["10/s".parse()?, "100/h".parse()?]).build_keyed();
    /// assert_eq!(limiter.check_n("ann", 11).unwrap_err().index, 0);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Builder<S> {
        self.limits.extend(limits);
        self
    }
}

impl Builder {
    /// Tells the time by `clock`.
    ///
    /// ```
    /// use tollgate::{Clock, Limiter};
    /// let clock = Clock::system(); // to share with what else needs the time
    /// let limiter = Limiter::builder().limit("10/s".parse()?).clock(clock.clone()).build();
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Builder {
        self.store.clock = Some(clock.into());
        self
    }

    /// Bounds the number of keys remembered (16 M unless set). At the bound, the key that owes
    /// least is forgotten first.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// let limiter = Limiter::builder().limit("10/h".parse()?).max_keys(100).build_keyed();
    /// for user in 0..1_000_u64 {
    ///     limiter.check(user)?;
    /// }
    /// assert!(limiter.len() <= 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_keys(mut self, max_keys: u64) -> Builder {
        self.store.max_keys = Some(max_keys);
        self
    }

    /// Keeps the states in `store`, which has a clock and bounds of its own. Share one between
    /// limiters as an `Arc`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Limiter, MemoryStore};
    /// let store = Arc::new(MemoryStore::new());
    /// let mail = Limiter::builder().limit("10/s".parse()?).store(store.clone()).build_keyed();
    /// let calls = Limiter::builder().limit("1/s".parse()?).store(store).build_keyed();
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn store<S>(self, store: S) -> Builder<Stored<S>> {
        Builder { limits: self.limits, store: Stored::new(store) }
    }

    /// A limiter with one budget.
    ///
    /// ```
    /// let unlimited = tollgate::Limiter::builder().build(); // no limit refuses nothing
    /// assert!(unlimited.check_n(1_000_000).is_ok());
    /// ```
    pub fn build(self) -> Limiter {
        Limiter::with(self.limits, self.store.clock.unwrap_or_default())
    }

    /// A limiter with a budget for each key.
    pub fn build_keyed(self) -> KeyedLimiter {
        KeyedLimiter::in_process(self.limits, self.store.open())
    }

    /// A limiter that decides requests by rules, which bring their own limits.
    ///
    /// ```
    /// use tollgate::{Limiter, Request, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let rules = "rules: [{ name: api, per: user, limit: 10/s }]".parse()?;
    /// let limiter = Limiter::builder().clock(&clock).build_rules(rules);
    /// assert!(limiter.decide(&Request::empty().attribute("user", "ann")).allowed);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    #[cfg(feature = "rules")]
    pub fn build_rules(self, rules: crate::Rules) -> crate::rules::RuleLimiter {
        let store = self.store.open();
        let clock = store.its_clock().clone();
        crate::rules::RuleLimiter::new(rules, store, clock)
    }
}

impl InProcess {
    fn open(self) -> MemoryStore {
        let mut store = MemoryStore::new();
        if let Some(clock) = self.clock {
            store = store.clock(clock);
        }
        if let Some(max_keys) = self.max_keys {
            store = store.max_keys(max_keys);
        }
        store
    }
}

/// The store was given.
///
/// ```
/// use tollgate::{Builder, Limiter, MemoryStore, Stored};
/// let builder: Builder<Stored<MemoryStore>> = Limiter::builder().store(MemoryStore::new());
/// ```
#[derive(Clone, Debug)]
pub struct Stored<S> {
    store: S,
    name: Option<Box<str>>,
    #[cfg(feature = "rules")]
    clock: Clock,
}

impl<S> Stored<S> {
    fn new(store: S) -> Stored<S> {
        Stored {
            store,
            name: None,
            #[cfg(feature = "rules")]
            clock: Clock::system(),
        }
    }
}

impl<S: Store> Builder<Stored<S>> {
    /// Names the limiter: whoever builds one of that name and those limits, in any process, on the
    /// same store, counts with it. Without a name a limiter in this process counts on its own, and
    /// one on a store that processes share counts with all that have the same limits.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Limiter, Store};
    /// fn mail(store: impl Store) -> Result<KeyedLimiter<impl Store>, tollgate::limit::ParseLimitError> {
    ///     Ok(Limiter::builder().limit("10/s".parse()?).store(store).name("mail").build_keyed())
    /// }
    /// ```
    pub fn name(mut self, name: impl Into<Box<str>>) -> Builder<Stored<S>> {
        self.store.name = Some(name.into());
        self
    }

    /// A limiter with a budget for each key.
    pub fn build_keyed(self) -> KeyedLimiter<S> {
        let Stored { store, name, .. } = self.store;
        // Without a name, the limits are what several processes agree on.
        let name = name.or_else(|| store.is_shared().then(Box::default));
        KeyedLimiter::with(self.limits, store, name)
    }

    /// Tells the time of schedules and bans by `clock`, the system's unless set; the store has its
    /// own.
    ///
    /// ```
    /// use tollgate::{Limiter, MemoryStore, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let store = MemoryStore::new().clock(&clock);
    /// let rules = "rules: [{ name: day, limit: 1/s, during: 08:00-20:00 }]".parse()?;
    /// let limiter = Limiter::builder().store(store).clock(&clock).build_rules(rules);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    #[cfg(feature = "rules")]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Builder<Stored<S>> {
        self.store.clock = clock.into();
        self
    }

    /// A limiter that decides requests by rules.
    #[cfg(feature = "rules")]
    pub fn build_rules(self, rules: crate::Rules) -> crate::rules::RuleLimiter<S> {
        crate::rules::RuleLimiter::new(rules, self.store.store, self.store.clock)
    }
}
