//! The limiter that decides requests by rules.

use std::pin::pin;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;

use crate::actions::fair::Fairness;
use crate::actions::ladder_ban_list::LadderBanList;
use crate::actions::ladder_bans::LadderBans;
use crate::actions::queue::{AttemptKind, WaitQueues};
use crate::decide::active_rules::ActiveRules;
use crate::decide::admission::Admission;
use crate::decide::builder::Listeners;
use crate::decide::decide_request::{Charging, decide};
use crate::decide::decision::Decision;
use crate::decide::explain::{Explanation, explain};
use crate::decide::local_shares::LocalShares;
use crate::decide::maintenance::Leases;
use crate::decide::pending_returns::PendingReturns;
use crate::decide::ready::ready;
use crate::decide::status::LimiterStatus;
use crate::matching::key_hasher::KeyHasher;
use crate::{KeySecret, Request, RuleLimiterBuilder, Rules};
use tollgate::{Clock, MemoryStore, Store, Time};

/// Decides requests by rules. Clones share its state.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter, Rules};
///
/// let rules: Rules = "
/// rules:
///   - { name: office, when: ip in lists.office, then: allow }
///   - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
/// lists:
///   office: [203.0.113.0/24]
/// ".parse()?;
/// let limiter = RuleLimiter::new(rules);
///
/// let login = |ip: &str| {
///     limiter.decide_now(&Request::new("POST", "/login").peer(ip.parse().unwrap()))
/// };
/// for _ in 0..5 {
///     assert!(login("198.51.100.1").allowed);
/// }
/// assert!(!login("198.51.100.1").allowed);
/// assert!(login("198.51.100.2").allowed); // another client
/// assert!((0..10).all(|_| login("203.0.113.9").allowed)); // from the office
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Debug)]
pub struct RuleLimiter<S = MemoryStore>(pub(crate) Arc<LimiterState<S>>);

/// The state that all clones of a limiter share.
#[derive(Debug)]
pub(crate) struct LimiterState<S> {
    pub(crate) store: S,
    pub(crate) clock: Clock,
    pub(crate) current: ArcSwap<ActiveRules>,
    /// The tenants that share each limit.
    pub(crate) fair: Fairness,
    /// The shares that decide `on_error: local` while the store does not answer.
    pub(crate) local: OnceLock<LocalShares>,
    pub(crate) listeners: Listeners,
    /// The bans given by ladders.
    pub(crate) ban_list: LadderBanList,
    /// The queues of waiting requests.
    pub(crate) queues: WaitQueues,
    /// Admissions whose leases are renewed.
    pub(crate) leases: Leases,
    /// What cancelled and dropped requests still have to return.
    pub(crate) pending_returns: PendingReturns,
}

impl<S> LimiterState<S> {
    /// Returns the time for decisions, and the date for schedules, bans and other times that people
    /// set.
    #[inline]
    pub(crate) fn now_and_date(&self) -> (Time, Time) {
        let now = self.clock.now();
        (now, self.clock.date(now))
    }

    /// Returns the date.
    pub(crate) fn date(&self) -> Time {
        self.now_and_date().1
    }
}

impl RuleLimiter {
    /// Creates a limiter that decides requests by `rules`, counts in memory and reads the system
    /// clock.
    ///
    /// ```no_run
    /// use tollgate_rules::{RuleLimiter, Rules};
    /// let limiter = RuleLimiter::new(Rules::from_file("tollgate.yaml")?);
    /// # Ok::<(), tollgate_rules::LoadError>(())
    /// ```
    pub fn new(rules: Rules) -> RuleLimiter {
        RuleLimiter::builder().build(rules)
    }

    /// Returns a builder for a limiter with a clock, a store or bounds of your choice.
    pub fn builder() -> RuleLimiterBuilder {
        RuleLimiterBuilder::default()
    }

    /// Decides a request in memory, without waiting.
    pub fn decide_now(&self, request: &Request<'_>) -> Decision {
        // The future is large, so it is pinned in place: moving it would cost as much as a lookup.
        let mut decision = Decision::none();
        let charging = Charging::for_request(request);
        ready(pin!(decide(&self.0, request, charging, AttemptKind::DecideOnly, &mut decision)));
        self.attach(charging, &mut decision);
        decision
    }
}

impl<S> Clone for RuleLimiter<S> {
    fn clone(&self) -> RuleLimiter<S> {
        RuleLimiter(self.0.clone())
    }
}

impl<S> RuleLimiter<S> {
    pub(crate) fn from_parts(
        rules: Rules,
        store: S,
        clock: Clock,
        listeners: Listeners,
        key_secret: KeySecret,
    ) -> RuleLimiter<S> {
        let hasher = Arc::new(KeyHasher::new(key_secret));
        RuleLimiter(Arc::new(LimiterState {
            store,
            clock,
            current: ArcSwap::from_pointee(ActiveRules::first(rules, hasher)),
            fair: Fairness::default(),
            local: OnceLock::new(),
            listeners,
            ban_list: LadderBanList::default(),
            queues: WaitQueues::default(),
            leases: Leases::default(),
            pending_returns: PendingReturns::default(),
        }))
    }

    /// Returns the store of the limiter.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// Returns the clock of the limiter.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns the active rules.
    pub fn rules(&self) -> Rules {
        self.0.current.load().rules.clone()
    }

    /// Replaces the rules at run time. A request sees either the old or the new rules, and counters
    /// continue: editing a limit does not forgive what was spent.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter, Rules};
    ///
    /// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 10/h }]".parse()?);
    /// for _ in 0..8 {
    ///     limiter.decide_now(&Request::new("GET", "/"));
    /// }
    /// limiter.replace("rules: [{ name: api, limit: 20/h }]".parse()?);
    /// let decision = limiter.decide_now(&Request::new("GET", "/"));
    /// assert_eq!(decision.tightest().unwrap().verdict.remaining, 11);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn replace(&self, rules: Rules) {
        let now = self.0.clock.now();
        self.0.current.rcu(|current| current.next(rules.clone(), current.hasher.clone(), now));
        self.0.queues.wake_all();
    }

    /// Replaces the secret of the hashes in keys. Counters of keys with a secret begin anew.
    pub fn set_key_secret(&self, secret: KeySecret) {
        let hasher = Arc::new(KeyHasher::new(secret));
        let now = self.0.clock.now();
        self.0.current.rcu(|current| current.next(current.rules.clone(), hasher.clone(), now));
        self.0.queues.wake_all();
    }

    /// Returns a key of a rule as its counters, logs and bans have it.
    ///
    /// Operators may give secrets in clear: they become hashes. A key of a rule that does not exist,
    /// or has no secrets, is returned as it is.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let rules = "rules: [{ name: api, per: 'header[\"x-api-key\"]', limit: 5/min }]";
    /// let limiter = RuleLimiter::new(rules.parse()?);
    /// let request = Request::new("GET", "/").header("x-api-key", "s3cret");
    /// let key = limiter.stored_key(None, "api", "s3cret");
    /// assert_eq!(limiter.decide_now(&request).key(), Some(&*key));
    /// assert!(!key.contains("s3cret"));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn stored_key(&self, domain: Option<&str>, rule: &str, key: &str) -> String {
        let active = self.0.current.load();
        let request = Request { domain, ..Request::empty() };
        let stored = active.rules.domain_of(&request).and_then(|domain| {
            let rule = domain.compiled.by_name.get(rule)?;
            Some(domain.stored_key(*rule, key).into_owned())
        });
        stored.unwrap_or_else(|| key.to_owned())
    }

    /// Returns the internal state for operators: queues, tenants, rule replacements.
    pub fn status(&self) -> LimiterStatus<'_, S> {
        LimiterStatus(&self.0)
    }

    /// Returns the bans given by ladders.
    pub fn bans(&self) -> LadderBans<'_, S> {
        LadderBans(&self.0)
    }
}

impl<S: Store + 'static> RuleLimiter<S> {
    /// Decides a request. Never fails: while the store does not answer, `on_error` of the rules
    /// decides.
    ///
    /// [`Decision::wait`] is the delay of a request that must wait; [`admit`](RuleLimiter::admit)
    /// waits itself.
    pub async fn decide(&self, request: &Request<'_>) -> Decision {
        let charging = Charging::for_request(request);
        if charging == Charging::Real {
            self.return_pending().await;
        }
        let mut decision = Decision::none();
        decide(&self.0, request, charging, AttemptKind::DecideOnly, &mut decision).await;
        self.attach(charging, &mut decision);
        decision
    }

    /// Explains how every rule applies to a request and how it would be decided. Charges nothing.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// # futures_lite(async {
    /// let rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 5/min }]".parse().unwrap();
    /// let limiter = RuleLimiter::new(rules);
    /// let explanation = limiter.explain(&Request::empty().attribute("user", "ann")).await;
    /// assert_eq!(explanation.rules[0].key.as_deref(), Some("ann"));
    /// assert_eq!(explanation.rules[0].limits[0].remaining, 4);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn explain(&self, request: &Request<'_>) -> Explanation {
        explain(&self.0, request).await
    }

    /// Returns what one cancelled request still holds, if the store is shared.
    #[inline]
    pub(crate) async fn return_pending(&self) {
        if self.0.store.is_shared() && !self.0.pending_returns.is_empty() {
            Box::pin(self.0.return_one()).await;
        }
    }

    /// Puts what a request holds under a guard.
    #[inline]
    pub(crate) fn attach(&self, charging: Charging, decision: &mut Decision) {
        if let Some(held) = decision.held.take()
            && charging == Charging::Real
        {
            decision.admission = Some(Admission::new(&self.0, *held));
        }
    }
}
