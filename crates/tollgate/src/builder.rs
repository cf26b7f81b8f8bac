//! The builder of limiters.

use smallvec::SmallVec;

use crate::{Clock, KeyedLimiter, Limit, Limiter, MemoryStore, Store};

/// A builder of a [`Limiter`] or a [`KeyedLimiter`].
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
pub struct Builder<S = DefaultStore> {
    limits: SmallVec<[Limit; 2]>,
    store: S,
}

/// The store of a [`Builder`] until another is set: a [`MemoryStore`] that belongs to the limiter.
///
/// ```
/// use tollgate::{Builder, DefaultStore, Limiter};
/// let builder: Builder<DefaultStore> = Limiter::builder();
/// ```
#[derive(Clone, Debug, Default)]
pub struct DefaultStore {
    clock: Option<Clock>,
    max_keys: Option<u64>,
    max_memory: Option<u64>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { limits: SmallVec::new(), store: DefaultStore::default() }
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
    /// Sets the clock.
    ///
    /// ```
    /// use tollgate::{Clock, Limiter};
    /// let clock = Clock::system(); // to share with other users of the time
    /// let limiter = Limiter::builder().limit("10/s".parse()?).clock(clock.clone()).build();
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> Builder {
        self.store.clock = Some(clock.into());
        self
    }

    /// Sets the maximum number of keys (16 M unless set).
    ///
    /// At the maximum, a new key evicts the key that owes least.
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

    /// Sets the maximum memory of the counters in bytes (2 GiB unless set; at least 16 MiB).
    ///
    /// At the maximum, as for [`max_keys`](Builder::max_keys), the keys that owe least are evicted.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// let limiter = Limiter::builder().limit("1k/h log".parse()?).max_memory(64 << 20).build_keyed();
    /// limiter.check("ann")?;
    /// assert!(limiter.store().memory() < 64 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_memory(mut self, bytes: u64) -> Builder {
        self.store.max_memory = Some(bytes);
        self
    }

    /// Sets the store, which has its own clock, maximum number of keys and maximum memory.
    ///
    /// To share a store between limiters, pass an `Arc`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Limiter, MemoryStore};
    /// let store = Arc::new(MemoryStore::new());
    /// let mail = Limiter::builder().limit("10/s".parse()?).store(store.clone()).build_keyed();
    /// let calls = Limiter::builder().limit("1/s".parse()?).store(store).build_keyed();
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn store<S>(self, store: S) -> Builder<CustomStore<S>> {
        Builder { limits: self.limits, store: CustomStore::new(store) }
    }

    /// Creates a limiter with one budget.
    ///
    /// ```
    /// let unlimited = tollgate::Limiter::builder().build(); // no limit refuses nothing
    /// assert!(unlimited.check_n(1_000_000).is_ok());
    /// ```
    pub fn build(self) -> Limiter {
        Limiter::with(self.limits, self.store.clock.unwrap_or_default())
    }

    /// Creates a limiter with a budget for each key.
    pub fn build_keyed(self) -> KeyedLimiter {
        KeyedLimiter::in_process(self.limits, self.store.open())
    }
}

impl DefaultStore {
    /// Creates the store.
    fn open(self) -> MemoryStore {
        let mut store = MemoryStore::new();
        if let Some(clock) = self.clock {
            store = store.clock(clock);
        }
        if let Some(max_keys) = self.max_keys {
            store = store.max_keys(max_keys);
        }
        if let Some(max_memory) = self.max_memory {
            store = store.max_memory(max_memory);
        }
        store
    }
}

/// The store that was set with [`Builder::store`].
///
/// ```
/// use tollgate::{Builder, Limiter, MemoryStore, CustomStore};
/// let builder: Builder<CustomStore<MemoryStore>> = Limiter::builder().store(MemoryStore::new());
/// ```
#[derive(Clone, Debug)]
pub struct CustomStore<S> {
    store: S,
    name: Option<Box<str>>,
}

impl<S> CustomStore<S> {
    fn new(store: S) -> CustomStore<S> {
        CustomStore { store, name: None }
    }
}

impl<S: Store> Builder<CustomStore<S>> {
    /// Sets the name of the limiter.
    ///
    /// Limiters of the same name, limits and store share their counters, in all processes. Without
    /// a name, a limiter on a store of this process has counters of its own; on a store that
    /// processes share, all unnamed limiters with the same limits share their counters.
    ///
    /// ```
    /// # use tollgate::{KeyedLimiter, Limiter, Store};
    /// fn mail(store: impl Store) -> Result<KeyedLimiter<impl Store>, tollgate::limit::ParseLimitError> {
    ///     Ok(Limiter::builder().limit("10/s".parse()?).store(store).name("mail").build_keyed())
    /// }
    /// ```
    pub fn name(mut self, name: impl Into<Box<str>>) -> Builder<CustomStore<S>> {
        self.store.name = Some(name.into());
        self
    }

    /// Creates a limiter with a budget for each key.
    pub fn build_keyed(self) -> KeyedLimiter<S> {
        let CustomStore { store, name } = self.store;
        // Processes that share a store identify an unnamed limiter by its limits.
        let name = name.or_else(|| store.is_shared().then(Box::default));
        KeyedLimiter::with(self.limits, store, name)
    }
}
