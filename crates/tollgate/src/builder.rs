//! Putting a limiter together.

use smallvec::SmallVec;

use crate::{Clock, KeyedLimiter, Limit, Limiter, MemoryStore};

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
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Builder<S> {
        self.limits.extend(limits);
        self
    }
}

impl Builder {
    /// Tells the time by `clock`.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Builder {
        self.store.clock = Some(clock.into());
        self
    }

    /// Bounds the number of keys remembered (16 M unless set). At the bound, the key that owes
    /// least is forgotten first.
    pub fn max_keys(mut self, max_keys: u64) -> Builder {
        self.store.max_keys = Some(max_keys);
        self
    }

    /// Keeps the states in `store`, which has a clock and bounds of its own. Share one between
    /// limiters as an `Arc`.
    pub fn store<S>(self, store: S) -> Builder<Stored<S>> {
        Builder { limits: self.limits, store: Stored(store) }
    }

    /// A limiter with one budget.
    pub fn build(self) -> Limiter {
        Limiter::with(self.limits, self.store.clock.unwrap_or_default())
    }

    /// A limiter with a budget for each key.
    pub fn build_keyed(self) -> KeyedLimiter {
        let mut store = MemoryStore::new();
        if let Some(clock) = self.store.clock {
            store = store.clock(clock);
        }
        if let Some(max_keys) = self.store.max_keys {
            store = store.max_keys(max_keys);
        }
        KeyedLimiter::with(self.limits, store)
    }
}

/// The store was given.
#[derive(Clone, Debug)]
pub struct Stored<S>(S);

impl<S> Builder<Stored<S>> {
    /// A limiter with a budget for each key.
    pub fn build_keyed(self) -> KeyedLimiter<S> {
        KeyedLimiter::with(self.limits, self.store.0)
    }
}
