//! When a request would be accepted that no line took: not when it could pass at once, but from when
//! on its turn would be near enough.

use std::time::Duration;

use tollgate_core::{Retry, Span};

use super::spot::is_place;
use crate::limit::Engine;
use crate::rules::compiled::{Bound, Rule, RuleLimit};
use crate::rules::decision::LimitState;

/// After how long a limit that refused would give a turn within that patience.
pub(super) fn accepted_after(rule: &Rule, limit: &LimitState, patience: Duration) -> Option<Span> {
    let Retry::After(after) = limit.verdict.retry else { return None };
    if is_place(limit) {
        return Some(after);
    }
    // A leaky limit that is overdrawn holds back for longer than until it no longer is.
    let is_overdrawn = limit.cost > limit.verdict.remaining;
    let lag = bound_of(rule, limit).and_then(held_back).filter(|_| is_overdrawn);
    Some(after + lag.unwrap_or(Span::ZERO) - patience.into())
}

/// How long a request is held back that a limit just lets pass.
fn held_back(bound: &Bound) -> Option<Span> {
    let Engine::Meter(meter) = bound.limit.engine() else { return None };
    let parts = meter.parts();
    Some(Span::from_nanos(parts.depth.0) - Span::from_nanos(parts.smooth?.0))
}

/// The limit as the rule has it. One that was granted to this client alone is not found, and then
/// the answer is on the early side.
fn bound_of<'r>(rule: &'r Rule, limit: &LimitState) -> Option<&'r Bound> {
    let bounds = rule.limits.iter().flat_map(|limit| match limit {
        RuleLimit::Fixed(bound) => std::slice::from_ref(bound).iter().collect::<Vec<_>>(),
        RuleLimit::Plan { by_plan, .. } => by_plan.iter().flatten().collect(),
        RuleLimit::Distinct(_) => Vec::new(),
    });
    bounds.into_iter().find(|bound| bound.limit.quota() == limit.quota)
}
