//! Computes when a refused request should try again: not when its limit would pass it at once, but
//! when its wait would fit into its patience.

use std::time::Duration;

use tollgate_core::{Retry, Span};

use super::queue_spec::is_permit_limit;
use crate::compile::domain::{BoundLimit, CompiledRule, RuleLimit};
use crate::decide::decision::LimitState;
use tollgate::limit::LimitAlgorithm;

/// Returns after how long a limit that refused would grant a slot within the patience.
pub(super) fn accepted_after(
    rule: &CompiledRule,
    limit: &LimitState,
    patience: Duration,
) -> Option<Span> {
    let Retry::After(after) = limit.verdict.retry else { return None };
    if is_permit_limit(limit) {
        return Some(after);
    }
    // An overdrawn leaky limit delays requests for longer than it stays overdrawn.
    let is_overdrawn = limit.cost > limit.verdict.remaining;
    let lag = bound_of(rule, limit).and_then(held_back).filter(|_| is_overdrawn);
    Some(after + lag.unwrap_or(Span::ZERO) - patience.into())
}

/// Returns the delay of a request that a limit only just allows.
fn held_back(bound: &BoundLimit) -> Option<Span> {
    let LimitAlgorithm::Meter(meter) = bound.limit.algorithm() else { return None };
    let parts = meter.parts();
    Some(Span::from_nanos(parts.depth.0) - Span::from_nanos(parts.smooth?.0))
}

/// Returns the limit as the rule defines it. A limit granted to this client alone is not found; the
/// result is then too early.
fn bound_of<'r>(rule: &'r CompiledRule, limit: &LimitState) -> Option<&'r BoundLimit> {
    let bounds = rule.limits.iter().flat_map(|limit| match limit {
        RuleLimit::Fixed(bound) => std::slice::from_ref(bound).iter().collect::<Vec<_>>(),
        RuleLimit::Plan { by_plan, .. } => by_plan.iter().flatten().collect(),
        RuleLimit::Distinct(_) => Vec::new(),
    });
    bounds.into_iter().find(|bound| bound.limit.summary() == limit.quota)
}
