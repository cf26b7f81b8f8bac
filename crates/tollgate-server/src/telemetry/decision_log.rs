//! The decision log: one structured line for each sampled decision, at a bounded rate.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_rules::describe_key;

use super::event::{DecisionEvent, INLINE_LIMIT};
use super::event_key::EventKeyParts;
use crate::config::TelemetryOptions;

/// The maximum number of lines per second; further lines are counted instead.
const MAX_LINES: u64 = 1000;

/// A sampling log of decisions.
#[derive(Debug)]
pub(super) struct DecisionLog {
    allowed: f64,
    denied: f64,
    /// Lines since the last tick.
    lines: AtomicU64,
}

impl DecisionLog {
    /// Creates a decision log; `None` if both shares are 0.
    pub(super) fn new(options: &TelemetryOptions) -> Option<DecisionLog> {
        let (allowed, denied) = (options.log_allowed, options.log_denied);
        let any = allowed > 0.0 || denied > 0.0;
        any.then(|| DecisionLog { allowed, denied, lines: AtomicU64::new(0) })
    }

    /// Returns whether this decision is logged, by chance.
    pub(super) fn is_sampled(&self, is_refusal: bool) -> bool {
        let share = if is_refusal { self.denied } else { self.allowed };
        share > 0.0 && fastrand::f64() < share
    }

    pub(super) fn write(&self, event: &DecisionEvent) {
        if self.lines.fetch_add(1, Ordering::Relaxed) >= MAX_LINES {
            return;
        }
        let EventKeyParts { domain, rule, key, .. } = event.parts();
        // The key of an inline limit is the caller's own text.
        let key = if rule == INLINE_LIMIT { key } else { describe_key(&key) };
        tracing::info!(
            target: "tollgate::decision",
            door = event.door.as_str(),
            domain,
            rule,
            key,
            outcome = event.outcome.as_str(),
            reason = event.reason,
            cost = event.cost,
            retry_after_ms = event.retry_after_ms(),
        );
    }

    /// Starts the next second.
    pub(super) fn tick(&self) {
        let lines = self.lines.swap(0, Ordering::Relaxed);
        if lines > MAX_LINES {
            let missing = lines - MAX_LINES;
            tracing::warn!(target: "tollgate::decision", missing, "dropped lines above the rate limit of the decision log");
        }
    }
}
