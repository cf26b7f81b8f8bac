//! Builds a [`RuleLimiter`] with its store, clock and bounds.

use tollgate::{Clock, MemoryStore, Store};

use crate::decide::settlement::SettlementListener;
#[cfg(feature = "envoy")]
use crate::envoy::{DescriptorHits, HitListener};
use crate::{KeySecret, RuleLimiter, Rules, SettledAs};

/// Builds a [`RuleLimiter`] that counts in memory, or in a store of your choice.
///
/// ```
/// use tollgate::testing::ManualClock;
/// use tollgate_rules::{Request, RuleLimiter};
///
/// let clock = ManualClock::new();
/// let rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 10/s }]".parse()?;
/// let limiter = RuleLimiter::builder().clock(&clock).max_keys(100_000).build(rules);
/// assert!(limiter.decide_now(&Request::empty().attribute("user", "ann")).allowed);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder makes nothing until it is built"]
pub struct RuleLimiterBuilder<S = MemoryCounters> {
    store: S,
    clock: Option<Clock>,
    listeners: Listeners,
    key_secret: Option<KeySecret>,
}

/// The functions that a limiter calls for telemetry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    /// Called when charges are settled.
    pub(crate) settled: SettlementListener,
    /// Called with the hits of descriptors.
    #[cfg(feature = "envoy")]
    pub(crate) hits: HitListener,
}

/// The default store of the builder: a [`MemoryStore`] owned by the limiter.
#[derive(Clone, Debug, Default)]
pub struct MemoryCounters {
    max_keys: Option<u64>,
    max_memory: Option<u64>,
}

impl<S> RuleLimiterBuilder<S> {
    /// Sets the clock; the default is the system clock. A store of your choice has its own clock;
    /// this one then applies to schedules and bans.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate::testing::ManualClock;
    /// use tollgate_rules::RuleLimiter;
    /// let clock = ManualClock::new();
    /// let store = MemoryStore::new().clock(&clock);
    /// let rules = "rules: [{ name: day, limit: 1/s, during: 08:00-20:00 }]".parse()?;
    /// let limiter = RuleLimiter::builder().store(store).clock(&clock).build(rules);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn clock(mut self, clock: impl Into<Clock>) -> RuleLimiterBuilder<S> {
        self.clock = Some(clock.into());
        self
    }

    /// Sets the secret of the hashes that stand for secrets in keys.
    ///
    /// All processes that count in one store need the same one. By default counters in memory have a
    /// random secret, and those in a shared store a public one: who reads the keys could then verify
    /// a guessed value.
    ///
    /// ```
    /// use tollgate_rules::{KeySecret, Request, RuleLimiter};
    /// let rules = "rules: [{ name: api, per: 'cookie[\"session\"]', limit: 5/min }]";
    /// let secret = KeySecret::new(*b"16 random bytes.");
    /// let limiter = RuleLimiter::builder().key_secret(secret).build(rules.parse()?);
    /// let request = Request::new("GET", "/").header("cookie", "session=s3cret");
    /// assert!(!limiter.decide_now(&request).key().unwrap().contains("s3cret"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn key_secret(mut self, secret: KeySecret) -> RuleLimiterBuilder<S> {
        self.key_secret = Some(secret);
        self
    }

    /// Calls a function with the domain and the rule for every advance charge that is settled.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tollgate_rules::{Outcome, Request, RuleLimiter, SettledAs};
    ///
    /// # futures_lite(async {
    /// let overruns = Arc::new(AtomicU64::new(0));
    /// let counter = overruns.clone();
    /// let rules = "
    /// attributes: [response.tokens]
    /// rules: [{ name: tokens, limit: 100/h, cost: { reserve: 40, settle: response.tokens } }]
    /// ";
    /// let limiter = RuleLimiter::builder()
    ///     .on_settled(move |_domain, _rule, settled| {
    ///         counter.fetch_add(u64::from(settled == SettledAs::Overrun), Ordering::Relaxed);
    ///     })
    ///     .build(rules.parse().unwrap());
    /// let call = Request::new("POST", "/");
    /// let admission = limiter.decide(&call).await.take_admission().unwrap();
    /// let answered = call.attribute("response.tokens", 50);
    /// admission.settle(Outcome::of(&answered)).await.unwrap();
    /// assert_eq!(overruns.load(Ordering::Relaxed), 1);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub fn on_settled(
        mut self,
        record: impl Fn(&str, &str, SettledAs) + Send + Sync + 'static,
    ) -> RuleLimiterBuilder<S> {
        self.listeners.settled = SettlementListener::new(record);
        self
    }

    /// Calls a function with the hits of every descriptor of Envoy's files that has a limit.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let over = Arc::new(AtomicU64::new(0));
    /// let counter = over.clone();
    /// let rules = "{ domain: auth, key: login, rate_limit: { unit: day, requests: 2 } }";
    /// let limiter = RuleLimiter::builder()
    ///     .on_descriptor_hits(move |hits| {
    ///         assert_eq!(hits.name.to_string(), "auth.login");
    ///         counter.fetch_add(hits.counts.over, Ordering::Relaxed);
    ///     })
    ///     .build(rules.parse()?);
    /// for _ in 0..3 {
    ///     limiter.decide_now(&Request::empty().attribute("login", "ann"));
    /// }
    /// assert_eq!(over.load(Ordering::Relaxed), 1);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    #[cfg(feature = "envoy")]
    pub fn on_descriptor_hits(
        mut self,
        record: impl Fn(&DescriptorHits<'_>) + Send + Sync + 'static,
    ) -> RuleLimiterBuilder<S> {
        self.listeners.hits = HitListener::new(record);
        self
    }
}

impl RuleLimiterBuilder {
    /// Sets the maximum number of keys in memory; the default is 16 million.
    pub fn max_keys(mut self, max_keys: u64) -> RuleLimiterBuilder {
        self.store.max_keys = Some(max_keys);
        self
    }

    /// Sets the maximum memory of the counters in bytes; the default is 2 GiB, the least 16 MiB.
    pub fn max_memory(mut self, bytes: u64) -> RuleLimiterBuilder {
        self.store.max_memory = Some(bytes);
        self
    }

    /// Counts in `store` instead.
    pub fn store<S: Store>(self, store: S) -> RuleLimiterBuilder<S> {
        let RuleLimiterBuilder { clock, listeners, key_secret, .. } = self;
        RuleLimiterBuilder { store, clock, listeners, key_secret }
    }

    /// Builds a limiter that decides requests by `rules` and counts in memory.
    pub fn build(self, rules: Rules) -> RuleLimiter {
        let clock = self.clock.unwrap_or_default();
        let mut store = MemoryStore::new().clock(clock.clone());
        if let Some(max_keys) = self.store.max_keys {
            store = store.max_keys(max_keys);
        }
        if let Some(max_memory) = self.store.max_memory {
            store = store.max_memory(max_memory);
        }
        let secret = self.key_secret.unwrap_or_else(KeySecret::random);
        RuleLimiter::from_parts(rules, store, clock, self.listeners, secret)
    }
}

impl<S: Store> RuleLimiterBuilder<S> {
    /// Builds a limiter that decides requests by `rules` and counts in the store.
    pub fn build(self, rules: Rules) -> RuleLimiter<S> {
        let clock = self.clock.unwrap_or_default();
        let secret = self.key_secret.unwrap_or_else(|| match self.store.is_shared() {
            true => KeySecret::PUBLIC,
            false => KeySecret::random(),
        });
        RuleLimiter::from_parts(rules, self.store, clock, self.listeners, secret)
    }
}
