//! Decision logs: a share of decisions, each a line with fields, and never more than so many.

use std::sync::atomic::{AtomicU64, Ordering};

use super::event::Event;
use super::subject::Parts;
use crate::config::TelemetryOptions;

/// Lines in a second; more are counted instead.
const MOST: u64 = 1000;

/// Which decisions are logged.
#[derive(Debug)]
pub(super) struct DecisionLog {
    allowed: f64,
    denied: f64,
    /// Since the last tick.
    lines: AtomicU64,
}

impl DecisionLog {
    /// None if nothing is to be logged.
    pub(super) fn new(options: &TelemetryOptions) -> Option<DecisionLog> {
        let (allowed, denied) = (options.log_allowed, options.log_denied);
        let any = allowed > 0.0 || denied > 0.0;
        any.then(|| DecisionLog { allowed, denied, lines: AtomicU64::new(0) })
    }

    /// Whether this decision is one of those to be logged.
    pub(super) fn wants(&self, is_refusal: bool) -> bool {
        let share = if is_refusal { self.denied } else { self.allowed };
        share > 0.0 && fastrand::f64() < share
    }

    pub(super) fn write(&self, event: &Event) {
        if self.lines.fetch_add(1, Ordering::Relaxed) >= MOST {
            return;
        }
        let Parts { domain, rule, key, .. } = event.parts();
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

    /// A second has passed.
    pub(super) fn tick(&self) {
        let lines = self.lines.swap(0, Ordering::Relaxed);
        if lines > MOST {
            let missing = lines - MOST;
            tracing::warn!(target: "tollgate::decision", missing, "more than are logged in a second");
        }
    }
}
