//! Decides requests of Envoy's rate limit protocol, and requests in Envoy domains.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::Request;
use crate::compile::policy::{Mode, OnError};
use crate::decide::adjust::Adjustment;
use crate::decide::admission::Admission;
use crate::decide::decide_request::Charging;
use crate::decide::decision::{Decision, LimitState, Named, Reason};
use crate::decide::limiter::{LimiterState, RuleLimiter};
use crate::decide::shadow_denial::ShadowRefusal;
use crate::envoy::{
    CheckPlan, Code, Descriptor, DescriptorStatus, DescriptorTree, EntrySource, JoinedEntries,
    PlannedCall, RateLimitRequest, RateLimitResponse, WindowReading, decision_status,
    descriptor_request, join_all,
};
use crate::matching::key_hasher::KeyHasher;
use tollgate::{Action, Reserve, Store, StoreCall, StoreError, Verdicts};
use tollgate_core::Verdict;

/// Decides a request of Envoy's rate limit protocol.
///
/// In a domain of rules, each descriptor is a request of its own, or all of them are one, as the file
/// says. An unknown domain limits nothing.
///
/// ```
/// use tollgate_rules::{RuleLimiter, Rules};
/// use tollgate_rules::envoy::{self, Code, Descriptor, RateLimitRequest};
///
/// # futures_lite(async {
/// let rules: Rules = "
/// domain: messaging
/// descriptors:
///   - key: to_number
///     rate_limit: { unit: day, requests_per_unit: 1 }
/// ".parse().unwrap();
/// let limiter = RuleLimiter::new(rules);
/// let descriptors = [Descriptor::new(&[("to_number", "2061111111")])];
/// let request = RateLimitRequest::new("messaging", &descriptors);
/// assert_eq!(envoy::decide(&limiter, &request).await.unwrap().overall, Code::Ok);
/// assert_eq!(envoy::decide(&limiter, &request).await.unwrap().overall, Code::OverLimit);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
pub async fn decide_envoy<S: Store + 'static>(
    limiter: &RuleLimiter<S>,
    request: &RateLimitRequest<'_>,
) -> Result<RateLimitResponse, StoreError> {
    let active = limiter.0.current.load_full();
    let unlimited = || {
        let plan = CheckPlan::unlimited(request.descriptors.len());
        Ok(plan.response(&[], limiter.0.clock.now()))
    };
    let tree = match active.rules.tree(request.domain) {
        Some(tree) if active.rules.is_tree_disabled(tree, limiter.0.date()) => return unlimited(),
        Some(tree) => tree,
        None if let Some(domain) = active.rules.domain(request.domain) => {
            return match domain.compiled.scope.joins_descriptors {
                true => decide_together(limiter, request).await,
                false => decide_by_rules(limiter, request).await,
            };
        }
        None => return unlimited(),
    };
    let plan = tree.plan_hashed(request, Some(&active.hasher));
    let verdicts = run(&limiter.0, &plan).await?;
    let response = plan.response(&verdicts, limiter.0.clock.now());
    let source = EntrySource::Descriptors(request.descriptors);
    report_hits(&limiter.0, tree, &plan, &source, &verdicts).await;
    Ok(response)
}

/// Reports the hits of all descriptors, for statistics.
#[inline]
async fn report_hits<S: Store>(
    limiter: &LimiterState<S>,
    tree: &DescriptorTree,
    plan: &CheckPlan<'_>,
    source: &EntrySource<'_, '_>,
    verdicts: &[Verdict],
) {
    let listener = &limiter.listeners.hits;
    if !listener.is_set() {
        return;
    }
    let reading = WindowReading::new(plan, verdicts);
    let windows = match reading.is_empty() {
        true => Verdicts::new(),
        // The future is rarely needed, so it is not part of that of every decision.
        false => Box::pin(read_windows(limiter, &reading)).await,
    };
    plan.report_hits(tree, source, verdicts, (&reading, &windows), listener);
}

/// Reads the windows of a reading. If the store fails, all hits of a request that is over count as
/// over: only statistics depend on it.
async fn read_windows<S: Store>(
    limiter: &LimiterState<S>,
    reading: &WindowReading<'_, '_>,
) -> Verdicts {
    let checks = reading.checks();
    let call = StoreCall { action: Action::Peek, checks: &checks };
    limiter.store.run(call).await.unwrap_or_default()
}

/// Decides the descriptors that have limits of their own by these; the others pass.
async fn decide_overrides<S: Store>(
    limiter: &RuleLimiter<S>,
    request: &RateLimitRequest<'_>,
) -> Result<SmallVec<[DescriptorStatus; 2]>, StoreError> {
    let own = CheckPlan::from_overrides(request, &limiter.0.current.load().hasher);
    let verdicts = run(&limiter.0, &own).await?;
    Ok(own.response(&verdicts, limiter.0.clock.now()).statuses)
}

/// Decides a request in a domain of rules.
async fn decide_by_rules<S: Store + 'static>(
    limiter: &RuleLimiter<S>,
    request: &RateLimitRequest<'_>,
) -> Result<RateLimitResponse, StoreError> {
    let mut statuses = decide_overrides(limiter, request).await?;
    for (status, descriptor) in statuses.iter_mut().zip(request.descriptors) {
        if descriptor.limit.is_none() {
            let cost = descriptor.cost(request.hits_addend);
            let asked = descriptor_request(request.domain, descriptor, cost);
            *status = ask(limiter, asked, cost, descriptor.negative).await?;
        }
    }
    Ok(RateLimitResponse::from_statuses(statuses))
}

/// Decides a request in a domain of rules that sees all descriptors as one request. It costs what the
/// dearest descriptor costs. A descriptor with a limit of its own is decided by that limit as well.
async fn decide_together<S: Store + 'static>(
    limiter: &RuleLimiter<S>,
    request: &RateLimitRequest<'_>,
) -> Result<RateLimitResponse, StoreError> {
    let mut statuses = decide_overrides(limiter, request).await?;
    let without_limit =
        || request.descriptors.iter().filter(|descriptor| descriptor.limit.is_none());
    let cost = |descriptor: &Descriptor<'_>| descriptor.cost(request.hits_addend);
    let Some(cost) = without_limit().map(cost).max() else {
        return Ok(RateLimitResponse::from_statuses(statuses));
    };
    let refunds = without_limit().all(|descriptor| descriptor.negative);
    let entries = JoinedEntries::new(request.descriptors);
    let asked = entries.request(request.domain, cost);
    let joined = ask(limiter, asked, cost, refunds).await?;
    for (status, descriptor) in statuses.iter_mut().zip(request.descriptors) {
        if descriptor.limit.is_none() {
            *status = joined.clone();
        }
    }
    Ok(RateLimitResponse::from_statuses(statuses))
}

/// Decides one request of Envoy's protocol by rules.
async fn ask<S: Store + 'static>(
    limiter: &RuleLimiter<S>,
    asked: Request<'_>,
    cost: u64,
    refunds: bool,
) -> Result<DescriptorStatus, StoreError> {
    let decision = match (cost, refunds) {
        (0, _) => limiter.decide(&asked.dry_run()).await,
        (_, true) => limiter.adjust(&asked, Adjustment::Refund(cost)).await?,
        _ => limiter.decide(&asked).await,
    };
    // Envoy does not report when a request ends.
    decision.admission().into_iter().for_each(Admission::detach);
    Ok(decision_status(&decision))
}

/// Runs the checks of a plan.
pub(crate) async fn run<S: Store>(
    limiter: &LimiterState<S>,
    plan: &CheckPlan<'_>,
) -> Result<Verdicts, StoreError> {
    let mut verdicts = Verdicts::new();
    if limiter.store.is_shared() {
        let calls: SmallVec<[PlannedCall<'_>; 4]> = plan.calls().collect();
        // The descriptors are counted separately, so they are decided concurrently.
        for answer in join_all(calls.iter().map(|call| limiter.store.run(call.as_call()))).await {
            verdicts.extend(answer?);
        }
        return Ok(verdicts);
    }
    for call in plan.calls() {
        verdicts.extend(limiter.store.run(call.as_call()).await?);
    }
    Ok(verdicts)
}

/// Decides a generic request as a single descriptor.
pub(crate) async fn decide<S: Store>(
    limiter: &LimiterState<S>,
    (tree, hasher): (&DescriptorTree, &KeyHasher),
    request: &Request<'_>,
    charging: Charging,
) -> Decision {
    let plan = tree.plan_request_hashed(request, Some(hasher));
    let plan = match charging {
        Charging::Real => plan,
        Charging::Dry => plan.without_charging(),
    };
    // Envoy's own service returns an error when its store is down, and Envoy then allows the
    // request.
    let decided = match run(limiter, &plan).await {
        Ok(verdicts) => {
            if charging == Charging::Real {
                let source = EntrySource::Request(request);
                report_hits(limiter, tree, &plan, &source, &verdicts).await;
            }
            Ok(decision(limiter, tree, &plan, verdicts, request.cost))
        }
        Err(error) => Err(error),
    };
    decided.unwrap_or_else(|_| Decision {
        without_store: Some(OnError::Allow),
        ..Decision::plain(true, Reason::StoreFailed, 200, None, None)
    })
}

/// Changes the counters of a generic request.
pub(crate) async fn adjust<S: Store>(
    limiter: &LimiterState<S>,
    (tree, hasher): (&DescriptorTree, &KeyHasher),
    request: &Request<'_>,
    action: Action,
    amount: u64,
) -> Result<Decision, StoreError> {
    let plan = tree.plan_request_hashed(request, Some(hasher));
    let plan = plan.with_action(action, amount);
    let verdicts = run(limiter, &plan).await?;
    Ok(decision(limiter, tree, &plan, verdicts, amount))
}

/// Returns the decision on one descriptor.
fn decision<S: Store>(
    limiter: &LimiterState<S>,
    tree: &DescriptorTree,
    plan: &CheckPlan<'_>,
    verdicts: Verdicts,
    cost: u64,
) -> Decision {
    let answer = plan.response(&verdicts, limiter.clock.now());
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
    decision.key = plan.counter_key(0).map(Into::into);
    if status.is_some_and(|status| !status.shadow_denials.is_empty())
        && let Some(verdict) = verdicts.iter().find(|verdict| !verdict.allowed)
    {
        let key = decision.key.clone().unwrap_or_default();
        decision.shadow_denials = Some([ShadowRefusal { rule: 0, key, verdict: *verdict }].into());
    }
    let limits: SmallVec<[_; 2]> = plan.limit_summaries().collect();
    decision.limits = limits.into_iter().zip(verdicts).map(state).collect();
    decision
}
