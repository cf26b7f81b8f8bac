//! Decides a request: matches the rules and checks their limits in the store.

use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tollgate_core::{Span, Time, Verdict};

use crate::Request;
use crate::actions::bans;
use crate::actions::dedupe::is_seen_check;
use crate::actions::fair;
use crate::actions::ladder_ban_list::LadderBanList;
use crate::actions::queue::AttemptKind;
use crate::compile::domain::Domain;
use crate::compile::policy::Unmatched;
use crate::decide::active_rules::ActiveRules;
#[cfg(feature = "envoy")]
use crate::decide::ask_envoy;
use crate::decide::decision::{Decision, Reason};
use crate::decide::limiter::LimiterState;
use crate::decide::local_shares::LocalShare;
use crate::matching::request_facts::RequestFacts;
use crate::matching::rule_checks::{self, LimitCheck, LimitCheckKind, MatchOutcome, RuleChecks};
use tollgate::state::new_lease;
use tollgate::{Action, Check, Clock, Store, StoreCall, StoreError, Verdicts};

/// Whether limits are charged, or only checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charging {
    Real,
    Dry,
}

impl Charging {
    #[inline]
    pub(crate) fn for_request(request: &Request<'_>) -> Charging {
        if request.is_dry_run { Charging::Dry } else { Charging::Real }
    }
}

/// Decides a request. Starts over if the rules are replaced meanwhile. Decisions are large, so the
/// result is written in place.
pub(crate) async fn decide<S: Store>(
    limiter: &LimiterState<S>,
    request: &Request<'_>,
    charging: Charging,
    attempt: AttemptKind<'_>,
    decision: &mut Decision,
) {
    loop {
        let active = limiter.current.load_full();
        #[cfg(feature = "envoy")]
        if let Some(tree) = active.rules.tree_of(request) {
            if active.rules.is_tree_disabled(tree, limiter.date()) {
                *decision = Decision::none();
                return;
            }
            *decision = ask_envoy::decide(limiter, (tree, &active.hasher), request, charging).await;
            return;
        }
        let Some(domain) = active.rules.domain_of(request) else {
            *decision = Decision::none();
            return;
        };
        let (now, date) = limiter.now_and_date();
        let rules = &domain.compiled;
        let mut request_checks = RuleChecks::none();
        let matched = {
            let facts = RequestFacts::new(request, &rules.reading);
            rule_checks::collect(domain, &facts, date, &mut request_checks)
        };
        request_checks.attempt = attempt;
        let (allowed, reason, code, rule) = match matched {
            MatchOutcome::Nothing => match rules.unmatched {
                Unmatched::Allow => (true, Reason::Unmatched, 200, None),
                Unmatched::Deny => (false, Reason::Unmatched, 503, None),
            },
            MatchOutcome::SwitchedOff => (true, Reason::Unmatched, 200, None),
            MatchOutcome::Allowed { rule } => (true, Reason::AllowedByRule, 200, Some(rule)),
            MatchOutcome::Denied { rule } => {
                let code = rules.rules[rule as usize].then.status();
                (false, Reason::DeniedByRule, code, Some(rule))
            }
            MatchOutcome::KeyMissing { rule } => {
                let code = rules.rules[rule as usize].then.status();
                (false, Reason::KeyMissing, code, Some(rule))
            }
            MatchOutcome::Limited => {
                if !domain.bans.is_empty()
                    && let Some(refused) = bans::refuse(domain, &request_checks, date)
                {
                    *decision = refused;
                    return;
                }
                if attempt.must_not_overtake()
                    && limiter.queues.has_waiting()
                    && let Some(refused) = limiter.queues.refuse_arrival(domain, &request_checks)
                {
                    *decision = refused;
                    return;
                }
                if request_checks.is_fair {
                    // Fair rules are rare, so their future is boxed and type-erased to keep the
                    // common future small.
                    let decided: Pin<Box<dyn Future<Output = bool> + Send + '_>> =
                        Box::pin(fair::decide(
                            limiter,
                            &active,
                            domain,
                            &mut request_checks,
                            now,
                            charging,
                            decision,
                        ));
                    if decided.await {
                        return;
                    }
                    continue;
                }
                let request_checks = &request_checks;
                let matched_request =
                    MatchedRequest::new(limiter, &active, domain, request_checks, now, charging);
                if matched_request.decide(limiter, decision).await {
                    return;
                }
                continue;
            }
        };
        *decision = Decision::plain(allowed, reason, code, rule, Some(rules.clone()));
        return;
    }
}

/// A request with the checks of the rules that match it.
pub(crate) struct MatchedRequest<'a, 'd, S> {
    pub(crate) store: &'a S,
    pub(crate) current: &'a ArcSwap<ActiveRules>,
    pub(crate) active: &'a Arc<ActiveRules>,
    pub(crate) ban_list: &'a LadderBanList,
    pub(crate) clock: &'a Clock,
    pub(crate) domain: &'a Domain,
    pub(crate) checks: &'a RuleChecks<'d>,
    /// The local shares that the checks count on; empty where they count on whole limits.
    pub(crate) shares: &'a [Arc<LocalShare>],
    pub(crate) now: Time,
    pub(crate) charging: Charging,
}

/// The indices of checks, with their verdicts.
pub(crate) type CheckVerdicts = SmallVec<[(usize, Verdict); 6]>;

type Checks<'c> = SmallVec<[Check<'c>; 6]>;

impl<'a, 'd, S: Store> MatchedRequest<'a, 'd, S> {
    /// Creates a request that the store of the limiter decides.
    pub(crate) fn new(
        limiter: &'a LimiterState<S>,
        active: &'a Arc<ActiveRules>,
        domain: &'a Domain,
        request_checks: &'a RuleChecks<'d>,
        now: Time,
        charging: Charging,
    ) -> MatchedRequest<'a, 'd, S> {
        let (store, current, shares) = (&limiter.store, &limiter.current, &[]);
        MatchedRequest {
            store,
            current,
            active,
            ban_list: &limiter.ban_list,
            clock: &limiter.clock,
            domain,
            checks: request_checks,
            shares,
            now,
            charging,
        }
    }

    /// Decides the request; returns `false` if the rules were replaced meanwhile.
    pub(crate) async fn decide(&self, limiter: &LimiterState<S>, decision: &mut Decision) -> bool {
        let lease = new_lease();
        // The rare cases are boxed to keep the common future small.
        let decided = match self.checks.is_simple && limiter.local_debts().is_none() {
            true => match self.check_once(lease).await {
                Ok(Some(verdicts)) => {
                    self.write_decision(lease, (0..).zip(&verdicts), decision);
                    if self.checks.has_auxiliary && !decision.allowed {
                        Box::pin(self.refused(limiter, decision)).await;
                    }
                    return true;
                }
                Ok(None) => return false,
                Err(_) => Box::pin(self.without_store(limiter, lease)).await,
            },
            false => Box::pin(self.decide_in_steps(limiter, lease)).await,
        };
        decided.map(|decided| *decision = decided).is_some()
    }

    async fn decide_in_steps(&self, limiter: &LimiterState<S>, lease: u64) -> Option<Decision> {
        let mut results = CheckVerdicts::new();
        let charged = match limiter.local_debts() {
            Some(local) if self.charging == Charging::Real => self.charge_debts(local).await,
            _ => Ok(true),
        };
        let outcome = match charged {
            Ok(true) => self.check_in_steps(lease, &mut results).await,
            other => other,
        };
        match outcome {
            Ok(true) => {
                let mut decision = self.decision_from(lease, &mut results);
                if self.checks.has_auxiliary && !decision.allowed {
                    self.refused(limiter, &mut decision).await;
                }
                Some(decision)
            }
            Ok(false) => None,
            Err(_) => self.without_store(limiter, lease).await,
        }
    }

    /// Decides in one call if every limit is enforced and charged; `None` if the rules were
    /// replaced.
    async fn check_once(&self, lease: u64) -> Result<Option<Verdicts>, StoreError> {
        let mut checks = Checks::new();
        checks.extend((0..self.checks.limit_checks.len()).map(|index| self.check(index, lease)));
        self.run_checks(self.taking(), &checks).await
    }

    /// Runs the checks: first those that are only read, then the enforced ones, all or none, last
    /// the shadow ones. Returns `false` if the rules were replaced.
    pub(crate) async fn check_in_steps(
        &self,
        lease: u64,
        results: &mut CheckVerdicts,
    ) -> Result<bool, StoreError> {
        if self.checks.is_simple {
            let Some(verdicts) = self.check_once(lease).await? else { return Ok(false) };
            results.extend((0..).zip(verdicts));
            return Ok(true);
        }
        let Some(mut known) = self.seen_before(lease).await? else { return Ok(false) };
        let mut read_only = self.indices_where(|check| {
            let is_checked = matches!(check.kind, LimitCheckKind::Limit | LimitCheckKind::Ban);
            !self.checks.rule_checks[check.rule_check].charged && is_checked
        });
        read_only.retain(|index| !self.is_skipped(&known, *index));
        if !read_only.is_empty() {
            let action = Action::Try { max_wait: Span::MAX };
            let Some(verdicts) = self.run(action, &read_only, lease).await? else {
                return Ok(false);
            };
            results.extend(read_only.iter().copied().zip(verdicts));
            if results.iter().any(|(index, verdict)| !verdict.allowed && self.is_enforced(*index)) {
                return Ok(true);
            }
        }
        let Some(allowed) = self.take(lease, &mut known, results).await? else {
            return Ok(false);
        };
        if allowed {
            self.shadow(lease, &known, results).await?;
        }
        Ok(true)
    }

    /// Returns the action that takes or tries; each check has its own patience.
    fn taking(&self) -> Action {
        match self.charging {
            Charging::Real => Action::Take { max_wait: Span::MAX },
            Charging::Dry => Action::Try { max_wait: Span::MAX },
        }
    }

    fn is_enforced(&self, index: usize) -> bool {
        self.checks.rule_checks[self.checks.limit_checks[index].rule_check].enforced
    }

    /// Returns the indices of the checks that fulfil a condition.
    pub(crate) fn indices_where(
        &self,
        wanted: impl Fn(&LimitCheck<'_>) -> bool,
    ) -> SmallVec<[usize; 6]> {
        let limit_checks = self.checks.limit_checks.iter().enumerate();
        limit_checks.filter(|(_, check)| wanted(check)).map(|(index, _)| index).collect()
    }

    /// Charges the enforced limits, all or none; returns whether they allowed it.
    async fn take(
        &self,
        lease: u64,
        known: &mut SmallVec<[usize; 2]>,
        results: &mut CheckVerdicts,
    ) -> Result<Option<bool>, StoreError> {
        loop {
            let mut wanted = self.indices_where(|check| {
                let rule_check = &self.checks.rule_checks[check.rule_check];
                rule_check.enforced && rule_check.charged
            });
            wanted.retain(|index| !self.is_skipped(known, *index));
            if wanted.is_empty() {
                return Ok(Some(true));
            }
            let verdicts = self.run(self.taking(), &wanted, lease).await?;
            let Some(verdicts) = verdicts else { return Ok(None) };
            let raced = wanted.iter().zip(&verdicts).find(|(index, verdict)| {
                is_seen_check(&self.checks.limit_checks[**index]) && !verdict.allowed
            });
            if let Some((index, _)) = raced {
                // A concurrent request was first with this value or id.
                known.push(*index);
                continue;
            }
            let allowed = verdicts.iter().all(|verdict| verdict.allowed);
            let paired = wanted.iter().copied().zip(verdicts);
            results.extend(paired.filter(|(index, _)| {
                self.checks.limit_checks[*index].kind != LimitCheckKind::DistinctSeen
            }));
            return Ok(Some(allowed));
        }
    }

    /// Charges each shadow rule separately, for requests that pass.
    async fn shadow(
        &self,
        lease: u64,
        known: &[usize],
        results: &mut CheckVerdicts,
    ) -> Result<(), StoreError> {
        for (number, rule_check) in self.checks.rule_checks.iter().enumerate() {
            if rule_check.enforced || !rule_check.charged {
                continue;
            }
            let is_charged = |kind| matches!(kind, LimitCheckKind::Limit | LimitCheckKind::Dedupe);
            let mut indices =
                self.indices_where(|check| check.rule_check == number && is_charged(check.kind));
            indices.retain(|index| !self.is_skipped(known, *index));
            if indices.is_empty() {
                continue;
            }
            if let Some(verdicts) = self.run(self.taking(), &indices, lease).await? {
                let raced = indices.iter().zip(&verdicts).any(|(index, verdict)| {
                    is_seen_check(&self.checks.limit_checks[*index]) && !verdict.allowed
                });
                if raced {
                    continue;
                }
                results.extend(indices.iter().copied().zip(verdicts));
            }
        }
        Ok(())
    }

    pub(crate) fn check<'c>(&'c self, index: usize, lease: u64) -> Check<'c> {
        let check = &self.checks.limit_checks[index];
        let counter = check.bound.counter;
        let previous = match self.shares {
            [] => self.active.previous(counter, self.now),
            shares => {
                let mut shares = shares.iter();
                shares
                    .find(|share| share.bound.counter == counter)
                    .and_then(|it| it.previous.as_ref())
            }
        };
        self.checks.check(check, &self.domain.compiled.rules, lease, previous)
    }

    /// Runs one call; `None` if the rules were replaced before the keys were locked.
    pub(crate) async fn run(
        &self,
        action: Action,
        indices: &[usize],
        lease: u64,
    ) -> Result<Option<Verdicts>, StoreError> {
        let checks: Checks<'_> = indices.iter().map(|index| self.check(*index, lease)).collect();
        self.run_checks(action, &checks).await
    }

    /// Runs one call with prepared checks; `None` if the rules were replaced.
    pub(crate) fn run_checks(
        &self,
        action: Action,
        checks: &[Check<'_>],
    ) -> impl Future<Output = Result<Option<Verdicts>, StoreError>> + Send {
        let generation = self.active.generation;
        let current = move || self.current.load().generation == generation;
        self.store.run_while(StoreCall { action, checks }, current)
    }
}
