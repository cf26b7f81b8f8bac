//! Decision events: one decision as it appears in the live tail, logs and traces.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::Verdict;
use tollgate_rules::{Decision, Reason, ShadowDenial};

use super::event_key::{self, EventKey, EventKeyParts};
use super::{DecisionOutcome, DoorName};
use crate::clock;
use crate::headers::millis_up;

/// A decision with the time, the door and the key it was made for.
#[derive(Clone, Debug)]
pub(super) struct DecisionEvent {
    at_ms: i64,
    pub(super) door: DoorName,
    pub(super) key: EventKey,
    pub(super) outcome: DecisionOutcome,
    pub(super) reason: &'static str,
    pub(super) cost: u64,
    retry_after: Option<Duration>,
    /// The remaining budget and the limit of the tightest limit.
    budget: Option<(u64, u64)>,
}

/// The label that replaces the rule's name for inline limits.
pub(super) const INLINE_LIMIT: &str = "brought";

impl DecisionEvent {
    pub(super) fn from_decision(
        door: DoorName,
        decision: &Decision,
        outcome: DecisionOutcome,
        cost: u64,
    ) -> DecisionEvent {
        let (domain, rule) = (decision.domain(), decision.rule());
        // Tenants can share a counter; the event names the tenant, not the counter.
        let key = decision.tenant().or(decision.key()).unwrap_or_default();
        let tightest = decision.tightest().map(|limit| limit.verdict);
        DecisionEvent {
            at_ms: clock::unix_ms(),
            door,
            key: EventKey::new(
                domain.unwrap_or_default(),
                rule.unwrap_or_default(),
                key.as_bytes(),
            ),
            outcome,
            reason: decision.reason.as_str(),
            cost,
            retry_after: decision.retry_after,
            budget: tightest.map(|verdict| (verdict.remaining, verdict.limit)),
        }
    }

    pub(super) fn from_shadow_denial(
        door: DoorName,
        domain: &str,
        denial: &ShadowDenial<'_>,
        cost: u64,
    ) -> DecisionEvent {
        DecisionEvent {
            at_ms: clock::unix_ms(),
            door,
            key: EventKey::new(domain, denial.rule, denial.key.as_bytes()),
            outcome: DecisionOutcome::ShadowDenied,
            reason: Reason::OverLimit.as_str(),
            cost,
            retry_after: denial.verdict.retry_after().map(Duration::from),
            budget: Some((denial.verdict.remaining, denial.verdict.limit)),
        }
    }

    pub(super) fn from_verdict(
        door: DoorName,
        key: &[u8],
        verdict: &Verdict,
        cost: u64,
    ) -> DecisionEvent {
        let (outcome, reason) = match verdict.allowed {
            true => (DecisionOutcome::Allowed, "within_limits"),
            false => (DecisionOutcome::Denied, "over_limit"),
        };
        DecisionEvent {
            at_ms: clock::unix_ms(),
            door,
            key: EventKey::new("", INLINE_LIMIT, key),
            outcome,
            reason,
            cost,
            retry_after: verdict.retry_after().map(Duration::from),
            budget: Some((verdict.remaining, verdict.limit)),
        }
    }

    pub(super) fn from_envoy(
        door: DoorName,
        (domain, rule, key): (&str, &str, &[u8]),
        outcome: DecisionOutcome,
        cost: u64,
        retry_after: Option<Duration>,
    ) -> DecisionEvent {
        DecisionEvent {
            at_ms: clock::unix_ms(),
            door,
            key: EventKey::new(domain, rule, key),
            outcome,
            reason: match outcome {
                DecisionOutcome::Denied | DecisionOutcome::ShadowDenied => "over_limit",
                _ => "within_limits",
            },
            cost,
            retry_after,
            budget: None,
        }
    }

    pub(super) fn parts(&self) -> EventKeyParts {
        event_key::decode(self.key.as_bytes())
    }

    pub(super) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// Returns the time until a retry can succeed, in milliseconds, rounded up.
    pub(super) fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after.map(millis_up)
    }

    pub(super) fn to_json(&self) -> Value {
        let EventKeyParts { domain, rule, key, cut } = self.parts();
        let mut body = json!({
            "at_ms": self.at_ms,
            "door": self.door.as_str(),
            "domain": domain,
            "rule": rule,
            "key": key,
            "allowed": !self.outcome.is_refusal(),
            "outcome": self.outcome.as_str(),
            "reason": self.reason,
            "cost": self.cost,
            "retry_after_ms": self.retry_after_ms(),
        });
        if let Some((remaining, limit)) = self.budget {
            body["remaining"] = json!(remaining);
            body["limit"] = json!(limit);
        }
        if cut {
            body["key_cut"] = json!(true);
        }
        body
    }
}
