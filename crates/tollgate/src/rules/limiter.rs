//! The limiter that follows rules.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::decide::{Charging, decide};
use super::decision::Decision;
use super::explain::{Explanation, explain};
use super::installed::Installed;
use super::local::Local;
use super::report::{Truth, report};
use super::settled::{SettledAs, SettledTo};
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
    /// Decides `on_error: local` while the store does not answer.
    pub(crate) local: OnceLock<Local>,
    /// Who wants to know how charges were settled.
    pub(crate) settled: SettledTo,
}

impl<S> Clone for RuleLimiter<S> {
    fn clone(&self) -> RuleLimiter<S> {
        RuleLimiter(self.0.clone())
    }
}

impl<S> RuleLimiter<S> {
    pub(crate) fn new(rules: Rules, store: S, clock: Clock) -> RuleLimiter<S> {
        let current = ArcSwap::from_pointee(Installed::first(rules));
        let (local, settled) = (OnceLock::new(), SettledTo::default());
        RuleLimiter(Arc::new(Shared { store, clock, current, local, settled }))
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

    /// Tells how every charge that was made in advance was settled, by domain and rule. Whether it
    /// does: there can be only one who is told.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::sync::Arc;
    /// use tollgate::rules::SettledAs;
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("
    /// rules: [{ name: tokens, limit: 100/h, cost: { reserve: 40, settle: response.tokens } }]
    /// ".parse()?);
    /// let overruns = Arc::new(AtomicU64::new(0));
    /// let counter = overruns.clone();
    /// limiter.on_settled(move |_domain, _rule, settled| {
    ///     counter.fetch_add(u64::from(settled == SettledAs::Overrun), Ordering::Relaxed);
    /// });
    /// let call = Request::new("POST", "/");
    /// limiter.settle(&limiter.decide(&call), &call.clone().attribute("response.tokens", 50));
    /// assert_eq!(overruns.load(Ordering::Relaxed), 1);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn on_settled(&self, tell: impl Fn(&str, &str, SettledAs) + Send + Sync + 'static) -> bool {
        self.0.settled.set(Box::new(tell))
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

    /// The outcome of a request that was allowed is known: what does not count goes back, and
    /// costs are settled. `outcome` is the request that was decided, with what is known of the
    /// answer as attributes ([`Decision::wanted`] says which).
    ///
    /// What was decided is settled once, on the counters that were charged, by the rules of then.
    /// A decision that is never settled keeps its charge.
    pub async fn report(
        &self,
        decision: &Decision,
        outcome: &Request<'_>,
    ) -> Result<(), StoreError> {
        report(&self.0, decision, outcome, Truth::Outcome).await
    }

    /// The same where only the cost is known: rules that settle take it for what they would have
    /// found in the answer, others for the cost of the request.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// # futures_lite(async {
    /// let limiter = Limiter::from_rules("rules: [{ name: tokens, limit: 100/h }]".parse().unwrap());
    /// let request = Request::empty().cost(40).to_be_settled(None);
    /// let decision = limiter.decide(&request);
    /// limiter.spent(&decision, &request, 10).await.unwrap();
    /// assert_eq!(limiter.explain(&request.cost(1)).rules[0].limits[0].remaining, 89);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn spent(
        &self,
        decision: &Decision,
        request: &Request<'_>,
        spent: u64,
    ) -> Result<(), StoreError> {
        report(&self.0, decision, request, Truth::Spent(spent)).await
    }

    /// A request that was allowed never got to where it would have had an outcome: rules that
    /// count outcomes or settle costs give back what they charged.
    pub async fn not_sent(&self, decision: &Decision) -> Result<(), StoreError> {
        report(&self.0, decision, &Request::empty(), Truth::NotSent).await
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
    ///     let decision = limiter.decide(&login);
    ///     assert!(decision.allowed);
    ///     limiter.settle(&decision, &login.clone().attribute("response.status", status));
    /// }
    /// assert!(!limiter.decide(&login).allowed); // three wrong passwords
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn settle(&self, decision: &Decision, outcome: &Request<'_>) {
        // The memory store does not fail.
        let _ = ready(self.report(decision, outcome));
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
