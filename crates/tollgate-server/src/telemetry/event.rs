//! One decision, as it is told to people.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::Verdict;
use tollgate::rules::Decision;

use super::subject::{self, Parts, Subject};
use super::{DoorName, Outcome};
use crate::clock;
use crate::headers::millis_up;

/// One decision.
#[derive(Clone, Debug)]
pub(super) struct Event {
    at_ms: i64,
    pub(super) door: DoorName,
    pub(super) subject: Subject,
    pub(super) outcome: Outcome,
    pub(super) reason: &'static str,
    pub(super) cost: u64,
    retry_after: Option<Duration>,
    left: Option<(u64, u64)>,
}

/// What a limit that was brought along is called where rules have names.
pub(super) const BROUGHT: &str = "brought";

impl Event {
    pub(super) fn of_decision(
        door: DoorName,
        decision: &Decision,
        outcome: Outcome,
        cost: u64,
    ) -> Event {
        let (domain, rule) = (decision.domain(), decision.rule());
        // Of those who share a counter, whoever it was.
        let key = decision.tenant().or(decision.key()).unwrap_or_default();
        let tightest = decision.tightest().map(|limit| limit.verdict);
        Event {
            at_ms: clock::unix_ms(),
            door,
            subject: Subject::new(
                domain.unwrap_or_default(),
                rule.unwrap_or_default(),
                key.as_bytes(),
            ),
            outcome,
            reason: decision.reason.as_str(),
            cost,
            retry_after: decision.retry_after,
            left: tightest.map(|verdict| (verdict.remaining, verdict.limit)),
        }
    }

    pub(super) fn of_verdict(door: DoorName, key: &[u8], verdict: &Verdict, cost: u64) -> Event {
        let (outcome, reason) = match verdict.allowed {
            true => (Outcome::Allowed, "within_limits"),
            false => (Outcome::Denied, "over_limit"),
        };
        Event {
            at_ms: clock::unix_ms(),
            door,
            subject: Subject::new("", BROUGHT, key),
            outcome,
            reason,
            cost,
            retry_after: verdict.retry_after().map(Duration::from),
            left: Some((verdict.remaining, verdict.limit)),
        }
    }

    pub(super) fn of_envoy(
        door: DoorName,
        (domain, rule, key): (&str, &str, &[u8]),
        outcome: Outcome,
        cost: u64,
        retry_after: Option<Duration>,
    ) -> Event {
        Event {
            at_ms: clock::unix_ms(),
            door,
            subject: Subject::new(domain, rule, key),
            outcome,
            reason: if outcome.is_refusal() { "over_limit" } else { "within_limits" },
            cost,
            retry_after,
            left: None,
        }
    }

    pub(super) fn parts(&self) -> Parts {
        subject::parts(self.subject.as_bytes())
    }

    pub(super) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// When to come back, in milliseconds, rounded up.
    pub(super) fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after.map(millis_up)
    }

    pub(super) fn to_json(&self) -> Value {
        let Parts { domain, rule, key, cut } = self.parts();
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
        if let Some((remaining, limit)) = self.left {
            body["remaining"] = json!(remaining);
            body["limit"] = json!(limit);
        }
        if cut {
            body["key_cut"] = json!(true);
        }
        body
    }
}
