//! Answering Envoy, and asking about a domain that was written for its rate limit service.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Request;
use super::adjust::Adjustment;
use super::decide::Charging;
use super::decision::{Decision, LimitState, Named, Reason};
use super::envoy::{
    Code, Plan, PlannedCall, RateLimitAnswer, RateLimitRequest, Tree, request_of, status_of,
};
use super::limiter::{RuleLimiter, Shared};
use super::policy::{Mode, OnError};
use crate::counters::ready;
use crate::store::{Action, Store};
use crate::store_error::StoreError;
use crate::{MemoryStore, Reserve, Verdicts, join};

impl<S: Store> RuleLimiter<S> {
    /// Answers a request of Envoy's rate limit protocol, wherever the store is. In a domain written
    /// as rules each descriptor is a request of its own; an unknown domain limits nothing.
    pub async fn ask_envoy(
        &self,
        request: &RateLimitRequest<'_>,
    ) -> Result<RateLimitAnswer, StoreError> {
        let installed = self.0.current.load_full();
        let plan = match installed.rules.tree(request.domain) {
            Some(tree) if installed.rules.is_tree_off(tree, self.0.clock.now()) => {
                Plan::unlimited(request.descriptors.len())
            }
            Some(tree) => tree.plan(request),
            None if installed.rules.domain(request.domain).is_some() => {
                return self.ask_rules(request).await;
            }
            None => Plan::unlimited(request.descriptors.len()),
        };
        let verdicts = run(&self.0, &plan).await?;
        Ok(plan.answer(&verdicts, self.0.clock.now()))
    }

    /// The same, where the domain is written as rules.
    async fn ask_rules(
        &self,
        request: &RateLimitRequest<'_>,
    ) -> Result<RateLimitAnswer, StoreError> {
        let own = Plan::of_overrides(request);
        let verdicts = run(&self.0, &own).await?;
        let mut statuses = own.answer(&verdicts, self.0.clock.now()).statuses;
        for (status, descriptor) in statuses.iter_mut().zip(request.descriptors) {
            if descriptor.limit.is_none() {
                let cost = descriptor.cost(request.hits_addend);
                let asked = request_of(request.domain, descriptor, cost);
                *status = status_of(&match (cost, descriptor.negative) {
                    (0, _) => self.preview(&asked).await,
                    (_, true) => self.adjust(&asked, Adjustment::Refund(cost)).await?,
                    _ => self.ask(&asked).await,
                });
            }
        }
        Ok(RateLimitAnswer::of(statuses))
    }
}

impl RuleLimiter<MemoryStore> {
    /// Answers a request of Envoy's rate limit protocol.
    ///
    /// ```
    /// use tollgate::{Limiter, Rules};
    /// use tollgate::rules::envoy::{Code, Descriptor, RateLimitRequest};
    ///
    /// let rules: Rules = "
    /// domain: messaging
    /// descriptors:
    ///   - key: to_number
    ///     rate_limit: { unit: day, requests_per_unit: 1 }
    /// ".parse()?;
    /// let limiter = Limiter::from_rules(rules);
    /// let descriptors = [Descriptor::new(&[("to_number", "2061111111")])];
    /// let request = RateLimitRequest::new("messaging", &descriptors);
    /// assert_eq!(limiter.decide_envoy(&request).overall, Code::Ok);
    /// assert_eq!(limiter.decide_envoy(&request).overall, Code::OverLimit);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn decide_envoy(&self, request: &RateLimitRequest<'_>) -> RateLimitAnswer {
        let unlimited =
            || Plan::unlimited(request.descriptors.len()).answer(&[], self.0.clock.now());
        // The memory store does not fail.
        ready(self.ask_envoy(request)).unwrap_or_else(|_| unlimited())
    }
}

async fn run<S: Store>(limiter: &Shared<S>, plan: &Plan<'_>) -> Result<Verdicts, StoreError> {
    let mut verdicts = Verdicts::new();
    if limiter.store.is_shared() {
        let calls: SmallVec<[PlannedCall<'_>; 4]> = plan.calls().collect();
        // Every descriptor is counted on its own: they need not wait for each other.
        for answer in join::all(calls.iter().map(|call| limiter.store.run(call.as_call()))).await {
            verdicts.extend(answer?);
        }
        return Ok(verdicts);
    }
    for call in plan.calls() {
        verdicts.extend(limiter.store.run(call.as_call()).await?);
    }
    Ok(verdicts)
}

/// Decides a generic request: the one descriptor it amounts to.
pub(crate) async fn decide<S: Store>(
    limiter: &Shared<S>,
    tree: &Tree,
    request: &Request<'_>,
    charging: Charging,
) -> Decision {
    let plan = match charging {
        Charging::Real => tree.plan_of(request),
        Charging::Dry => tree.plan_of(request).without_charging(),
    };
    // What the original answers when its store is down is an error, which Envoy lets pass.
    let decided = carry_out(limiter, tree, &plan, request.cost).await;
    decided.unwrap_or_else(|_| Decision {
        without_store: Some(OnError::Allow),
        ..Decision::plain(true, Reason::StoreFailed, 200, None, None)
    })
}

/// Changes what a generic request is counted by.
pub(crate) async fn adjust<S: Store>(
    limiter: &Shared<S>,
    tree: &Tree,
    request: &Request<'_>,
    action: Action,
    amount: u64,
) -> Result<Decision, StoreError> {
    let plan = tree.plan_of(request).doing(action, amount);
    carry_out(limiter, tree, &plan, amount).await
}

/// Runs a plan of one descriptor; the decision it comes to.
async fn carry_out<S: Store>(
    limiter: &Shared<S>,
    tree: &Tree,
    plan: &Plan<'_>,
    cost: u64,
) -> Result<Decision, StoreError> {
    let verdicts = run(limiter, plan).await?;
    let answer = plan.answer(&verdicts, limiter.clock.now());
    let status = answer.statuses.first();
    let mut decision = match (answer.overall, verdicts.is_empty()) {
        (Code::OverLimit, _) => Decision::plain(false, Reason::OverLimit, 429, None, None),
        (Code::Ok, true) => Decision::plain(true, Reason::Unmatched, 200, None, None),
        (Code::Ok, false) => Decision::plain(true, Reason::WithinLimits, 200, None, None),
    };
    decision.retry_after = status.and_then(|status| status.retry_after);
    let named = status.and_then(|status| status.current_limit.as_ref()?.name.clone());
    let domain: Arc<str> = tree.domain().into();
    let limit = named.unwrap_or_else(|| domain.clone());
    decision.named = Some(Box::new(Named { domain, limit }));
    let state = |(quota, verdict)| LimitState {
        rule: 0,
        quota,
        verdict,
        mode: Mode::Enforce,
        enforced: true,
        cost,
        reserve: Reserve::None,
    };
    let limits: SmallVec<[_; 2]> = plan.quotas().collect();
    decision.limits = limits.into_iter().zip(verdicts).map(state).collect();
    decision.key = plan.key_of(0).map(Into::into);
    Ok(decision)
}
