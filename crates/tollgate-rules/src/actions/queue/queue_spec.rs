//! Whether and how a decided request waits in a queue.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Meter, Span, Time};

use super::capacity_of;
use super::queue_entry::{QueueEntry, RetryTimes};
use crate::Request;
use crate::compile::domain::{BoundLimit, CompiledDomain, CompiledRule};
use crate::compile::expr::Activation;
use crate::compile::policy::{Queue, Then};
use crate::decide::decision::{Decision, LimitState, Reason};
use crate::decide::held_charges::HeldCharge;
use crate::decide::limiter::LimiterState;
use crate::matching::key::{KeyBytes, KeyWriter};
use crate::matching::request_facts::RequestFacts;
use crate::matching::rule_checks::{LimitCheck, write_part};
use tollgate::Store;
use tollgate::limit::{AlgorithmName, LimitAlgorithm};

/// The circumstances under which a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptKind<'a> {
    /// The request is decided and does not join a queue.
    DecideOnly,
    /// The request arrives, and must not overtake requests that wait.
    Arrival,
    /// The request arrives as one of several alternatives that differ in this attribute, and does
    /// not wait for rules that count by it.
    ArrivalIfFree(&'a str),
    /// The request has waited this long.
    AfterWait(Duration),
    /// The request has waited this long for one alternative and tries another.
    Alternative(Duration, &'a str),
}

impl AttemptKind<'_> {
    /// Whether the request must not overtake requests that wait.
    #[inline]
    pub(crate) fn must_not_overtake(self) -> bool {
        matches!(
            self,
            AttemptKind::Arrival | AttemptKind::ArrivalIfFree(_) | AttemptKind::Alternative(..)
        )
    }

    /// Returns how long a rule with this patience may still delay the request.
    #[inline]
    pub(crate) fn patience_left(
        self,
        rule: &CompiledRule,
        limit_check: &LimitCheck<'_>,
        patience: Span,
    ) -> Span {
        match (self, &rule.then) {
            (AttemptKind::DecideOnly, Then::Queue(queue)) => {
                patience.min(longest_queue_wait(queue, limit_check))
            }
            (AttemptKind::DecideOnly | AttemptKind::Arrival, _) => patience,
            (AttemptKind::ArrivalIfFree(attribute) | AttemptKind::Alternative(_, attribute), _)
                if rule.counts_by(attribute) =>
            {
                Span::ZERO
            }
            (AttemptKind::ArrivalIfFree(_), _) => patience,
            (AttemptKind::AfterWait(waited) | AttemptKind::Alternative(waited, _), _) => {
                patience - waited.into()
            }
        }
    }

    /// Whether a refusal is final: not if the request tries another alternative or waits.
    pub(crate) fn is_final(
        self,
        decision: &Decision,
        rules: &CompiledDomain,
        patience: Duration,
    ) -> bool {
        let waited = match self {
            AttemptKind::DecideOnly => return true,
            AttemptKind::Alternative(..) => return false,
            AttemptKind::ArrivalIfFree(attribute) if decision.is_counted_by(attribute) => {
                return false;
            }
            AttemptKind::Arrival | AttemptKind::ArrivalIfFree(_) => Duration::ZERO,
            AttemptKind::AfterWait(waited) => waited,
        };
        !waits_for_permit(decision, rules, patience, waited)
    }
}

/// Returns the wait of the last request in a full queue, where the rate determines it. Such a
/// request occupies its slot without being in the queue.
#[cold]
fn longest_queue_wait(queue: &Queue, limit_check: &LimitCheck<'_>) -> Span {
    let meter = steady(limit_check.bound).filter(|_| limit_check.cost == 1);
    meter.map_or(Span::MAX, |meter| {
        let (nanos, part) = meter.time_of(queue.capacity);
        Span::from_nanos(nanos.saturating_add(u64::from(part > 0)))
    })
}

/// Whether a refused request waits for a permit. A rate limit that refuses has no slot within the
/// patience, so a retry would not help.
fn waits_for_permit(
    decision: &Decision,
    rules: &CompiledDomain,
    patience: Duration,
    waited: Duration,
) -> bool {
    let is_patient = |rule: u32| rules.rules[rule as usize].then.patience().max(patience) > waited;
    let mut refused = decision.limits.iter().filter(|it| it.enforced && !it.verdict.allowed);
    decision.reason == Reason::OverLimit
        && decision.rule.is_some_and(is_patient)
        && refused.all(|limit| is_permit_limit(limit) && is_patient(limit.rule))
}

/// The queue that a request waits in, and how.
pub(super) struct QueueSpec {
    pub(super) rules: Arc<CompiledDomain>,
    pub(super) rule: u32,
    pub(super) entry: QueueEntry,
    pub(super) kind: QueueMode,
}

pub(super) enum QueueMode {
    /// The request is charged and may proceed at `at`, but not before another limit allows it.
    Slot { at: Time, not_before: Time },
    /// The request is not charged and retries.
    Retry(RetryTimes),
}

impl QueueSpec {
    pub(super) fn rule(&self) -> &CompiledRule {
        &self.rules.rules[self.rule as usize]
    }
}

/// A request that waits.
pub(super) struct WaitingRequest<'w, 'r, S> {
    pub(super) limiter: &'w LimiterState<S>,
    pub(super) request: &'w Request<'r>,
    /// Alternatives that would serve as well.
    pub(super) others: &'w [Request<'r>],
    /// The attribute in which the alternatives differ.
    pub(super) attribute: &'w str,
    pub(super) began: Time,
}

impl<S: Store> WaitingRequest<'_, '_, S> {
    /// Returns where the request waits after a decision; none if the decision is final.
    pub(super) fn spec(&self, decision: &Decision, now: Time) -> Option<QueueSpec> {
        let rules = decision.rules.as_ref()?;
        match decision.allowed {
            true => self.slot_spec(rules, decision, now),
            false => self.retry_spec(rules, decision, now),
        }
    }

    fn slot_spec(
        &self,
        rules: &Arc<CompiledDomain>,
        decision: &Decision,
        now: Time,
    ) -> Option<QueueSpec> {
        let enforced = decision.limits.iter().filter(|limit| limit.enforced);
        let longest = enforced.clone().max_by_key(|limit| limit.verdict.wait)?;
        let at = now + longest.verdict.wait;
        if longest.verdict.wait.is_zero() {
            return None;
        }
        let others = enforced.filter(|limit| limit.rule != longest.rule);
        let not_before = now + others.map(|limit| limit.verdict.wait).max().unwrap_or(Span::ZERO);
        let held = decision.held.as_ref()?;
        let mut charges = held.charges.iter().filter(|charge| charge.rule == longest.rule);
        let charge = charges.next()?;
        let takes = refill_time(charge).filter(|_| charges.next().is_none());
        let entry = self.entry(rules, longest.rule, &charge.key);
        let entry = QueueEntry { cost: charge.cost, takes, ..entry };
        let kind = QueueMode::Slot { at, not_before };
        Some(QueueSpec { rules: rules.clone(), rule: longest.rule, entry, kind })
    }

    fn retry_spec(
        &self,
        rules: &Arc<CompiledDomain>,
        decision: &Decision,
        now: Time,
    ) -> Option<QueueSpec> {
        let waited = now.since(self.began).into();
        if !waits_for_permit(decision, rules, self.request.patience, waited) {
            return None;
        }
        let rule = decision.rule?;
        let entry = self.entry(rules, rule, decision.key.as_deref()?);
        let accepts_alternatives =
            !self.others.is_empty() && rules.rules[rule as usize].holds_permits_by(self.attribute);
        let entry = QueueEntry { accepts_alternatives, ..entry };
        let passes_at = decision.retry_after.map(|span| now + span.into());
        let kind = QueueMode::Retry(RetryTimes { at: passes_at, passes_at });
        Some(QueueSpec { rules: rules.clone(), rule, entry, kind })
    }

    /// Returns how long the request may wait for a rule.
    pub(super) fn patience(&self, rule: &CompiledRule) -> Duration {
        rule.then.patience().max(self.request.patience)
    }

    fn entry(&self, rules: &CompiledDomain, rule: u32, key: &[u8]) -> QueueEntry {
        let rule = &rules.rules[rule as usize];
        let (capacity, lifo) = capacity_of(&rule.then);
        let tenant: Arc<[u8]> = self.tenant(rules, rule).unwrap_or_default().as_slice().into();
        let key: Arc<[u8]> = key.into();
        let share_key = match rule.fair.is_some() {
            // Keys contain no zero byte.
            true => [&key, &[0][..], &tenant].concat().into(),
            false => key.clone(),
        };
        QueueEntry {
            key,
            tenant,
            share_key,
            cost: 1,
            takes: None,
            deadline: self.began + self.patience(rule).into(),
            capacity,
            lifo,
            fair: rule.fair.is_some(),
            accepts_alternatives: false,
        }
    }

    /// Returns the tenant of the request, if the rule shares its limits fairly.
    fn tenant(&self, rules: &CompiledDomain, rule: &CompiledRule) -> Option<KeyBytes> {
        let by = rule.fair.as_ref()?;
        let active = self.limiter.current.load();
        let domain = active.rules.domain_of(self.request)?;
        let facts = RequestFacts::new(self.request, &rules.reading);
        let on = Activation { facts: &facts, route: None, lists: &domain.lists };
        let mut tenant = KeyBytes::new();
        write_part(&domain.hasher, on, by, &mut KeyWriter::new(&mut tenant));
        Some(tenant)
    }
}

pub(super) fn is_permit_limit(limit: &LimitState) -> bool {
    matches!(limit.quota.algorithm, AlgorithmName::Concurrent | AlgorithmName::Adaptive)
}

/// Returns how long a cost takes to refill, where that is constant.
fn refill_time(charge: &HeldCharge) -> Option<Span> {
    steady(&charge.bound).map(|meter| Span::from_nanos(meter.time_of(charge.cost).0))
}

fn steady(bound: &BoundLimit) -> Option<&Meter> {
    let LimitAlgorithm::Meter(meter) = bound.limit.algorithm() else { return None };
    let parts = meter.parts();
    (parts.interval.is_none() && !parts.pays_later).then_some(meter)
}
