//! The limiter that follows rules.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::decide::{Charging, decide};
use super::decision::Decision;
use super::explain::{Explanation, explain};
use super::fair::Fairness;
use super::installed::Installed;
use super::local::Local;
use super::{Request, Rules};
use crate::counters::ready;
use crate::{Clock, MemoryStore, Store, StoreError};

/// Decides requests by rules. Clones share it.
///
/// ```
/// use tollgate::{Limiter, Request, Rules};
///
/// let rules: Rules = "
/// rules:
///   - { name: office, when: ip in lists.office, then: allow }
///   - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
/// lists:
///   office: [203.0.113.0/24]
/// ".parse()?;
/// let limiter = Limiter::from_rules(rules);
///
/// let login = |ip: &str| limiter.decide(&Request::new("POST", "/login").peer(ip.parse().unwrap()));
/// for _ in 0..5 {
///     assert!(login("198.51.100.1").allowed);
/// }
/// assert!(!login("198.51.100.1").allowed);
/// assert!(login("198.51.100.2").allowed); // somebody else
/// assert!((0..10).all(|_| login("203.0.113.9").allowed)); // from the office
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Debug)]
pub struct RuleLimiter<S = MemoryStore>(pub(crate) Arc<Shared<S>>);

#[derive(Debug)]
pub(crate) struct Shared<S> {
    pub(crate) store: S,
    pub(crate) clock: Clock,
    pub(crate) current: ArcSwap<Installed>,
    /// Who shares which limit.
    pub(crate) fair: Fairness,
    /// Decides `on_error: local` while the store does not answer.
    pub(crate) local: OnceLock<Local>,
}

impl<S> Clone for RuleLimiter<S> {
    fn clone(&self) -> RuleLimiter<S> {
        RuleLimiter(self.0.clone())
    }
}

impl<S> RuleLimiter<S> {
    pub(crate) fn new(rules: Rules, store: S, clock: Clock) -> RuleLimiter<S> {
        let current = ArcSwap::from_pointee(Installed::first(rules));
        RuleLimiter(Arc::new(Shared {
            store,
            clock,
            current,
            fair: Fairness::default(),
            local: OnceLock::new(),
        }))
    }

    /// The store that decides.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// The clock that decides.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The rules in force.
    pub fn rules(&self) -> Rules {
        self.0.current.load().rules.clone()
    }

    /// How often the rules were replaced.
    pub fn replacements(&self) -> u64 {
        self.0.current.load().generation
    }

    /// Replaces the rules while running. A request sees the old rules or the new ones, never a
    /// mix, and counters go on: editing a limit forgives nobody.
    ///
    /// ```
    /// use tollgate::{Limiter, Request, Rules};
    ///
    /// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 10/h }]".parse()?);
    /// for _ in 0..8 {
    ///     limiter.decide(&Request::new("GET", "/"));
    /// }
    /// limiter.replace("rules: [{ name: api, limit: 20/h }]".parse()?);
    /// let decision = limiter.decide(&Request::new("GET", "/"));
    /// assert_eq!(decision.tightest().unwrap().verdict.remaining, 11);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn replace(&self, rules: Rules) {
        let now = self.0.clock.now();
        self.0.current.rcu(|current| current.next(rules.clone(), now));
    }
}

impl<S: Store> RuleLimiter<S> {
    /// Decides a request, wherever the store is. Never fails: what happens while the store does
    /// not answer is said by the rules (`on_error`).
    pub async fn ask(&self, request: &Request<'_>) -> Decision {
        let mut decision = Decision::none();
        decide(&self.0, request, Charging::Real, &mut decision).await;
        decision
    }

    /// What a request would be answered right now; nothing is charged.
    pub async fn preview(&self, request: &Request<'_>) -> Decision {
        let mut decision = Decision::none();
        decide(&self.0, request, Charging::Dry, &mut decision).await;
        decision
    }

    /// What every rule makes of a request, and what it would be answered; nothing is charged.
    pub async fn explanation(&self, request: &Request<'_>) -> Explanation {
        explain(&self.0, request).await
    }

    /// The outcome of a request that was allowed is known: what counts outcomes is charged, and
    /// costs are settled. `request` is the one that was decided, with what is known of the
    /// response as attributes (`response.status`, `response.header.x-tokens`).
    pub async fn report(&self, request: &Request<'_>) -> Result<(), StoreError> {
        super::report::report(&self.0, request).await
    }

    /// A request that was allowed is done: what it held of limits on concurrency is free again.
    ///
    /// Without this a place is free when its lease ends.
    pub async fn done(
        &self,
        decision: &Decision,
        took: Duration,
        dropped: bool,
    ) -> Result<(), StoreError> {
        match &decision.held {
            Some(held) => held.release(&self.0, took.into(), dropped).await,
            None => Ok(()),
        }
    }

    /// A request that was let through will not go on after all, before any of it did: whoever left
    /// while it was [held back](Decision::wait). What it was charged goes back. Of a request that
    /// could go on at once there is nothing to give back but its places.
    pub async fn give_back(&self, decision: &Decision) -> Result<(), StoreError> {
        match &decision.held {
            Some(held) => held.give_back(&self.0).await,
            None => Ok(()),
        }
    }
}

impl RuleLimiter {
    /// Decides a request.
    pub fn decide(&self, request: &Request<'_>) -> Decision {
        // Pinned where it is made: it is large, and moving it would cost as much as a look-up.
        let mut decision = Decision::none();
        ready(pin!(decide(&self.0, request, Charging::Real, &mut decision)));
        decision
    }

    /// What every rule makes of a request, and what it would be answered; nothing is charged.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("rules: [{ name: api, per: user, limit: 5/min }]".parse()?);
    /// let explanation = limiter.explain(&Request::empty().attribute("user", "ann"));
    /// assert_eq!(explanation.rules[0].key.as_deref(), Some("ann"));
    /// assert_eq!(explanation.rules[0].limits[0].remaining, 4);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        ready(self.explanation(request))
    }

    /// [`report`](RuleLimiter::report), at once.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("
    /// rules:
    ///   - { name: login, per: ip, limit: 3/h, count: response.status == 401 }
    /// ".parse()?);
    /// let login = Request::new("POST", "/login").attribute("ip", "203.0.113.7");
    /// for status in [401, 200, 401, 200, 401] {
    ///     assert!(limiter.decide(&login).allowed);
    ///     limiter.settle(&login.clone().attribute("response.status", status));
    /// }
    /// assert!(!limiter.decide(&login).allowed); // three wrong passwords
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn settle(&self, request: &Request<'_>) {
        // The memory store does not fail.
        let _ = ready(self.report(request));
    }

    /// [`done`](RuleLimiter::done), at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("rules: [{ name: db, limit: 1 concurrent }]".parse()?);
    /// let decision = limiter.decide(&Request::new("GET", "/"));
    /// assert!(!limiter.decide(&Request::new("GET", "/")).allowed);
    /// limiter.release(&decision, Duration::from_millis(12));
    /// assert!(limiter.decide(&Request::new("GET", "/")).allowed);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn release(&self, decision: &Decision, took: Duration) {
        // The memory store does not fail.
        let _ = ready(self.done(decision, took, false));
    }
}
