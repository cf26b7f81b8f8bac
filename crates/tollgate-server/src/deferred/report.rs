//! What metrics tell of deferred requests.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Deferred;
use super::item::State;
use crate::clock;
use crate::telemetry::Exposition;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The upstream answered, and that was that.
    Done,
    /// It will be tried again.
    Retry,
    /// It was the last one: a dead letter.
    Failed,
    /// No upstream could be reached.
    Unreachable,
}

impl Attempt {
    const ALL: [Attempt; 4] =
        [Attempt::Done, Attempt::Retry, Attempt::Failed, Attempt::Unreachable];

    fn as_str(self) -> &'static str {
        match self {
            Attempt::Done => "done",
            Attempt::Retry => "retry",
            Attempt::Failed => "failed",
            Attempt::Unreachable => "unreachable",
        }
    }
}

/// How many attempts went how.
#[derive(Debug, Default)]
pub(super) struct Tally([AtomicU64; Attempt::ALL.len()]);

impl Tally {
    pub(super) fn count(&self, attempt: Attempt) {
        self.0[attempt as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Deferred {
    /// Writes the metrics of deferred requests. Where they cannot be counted now, gauges are left
    /// out: what is not known is not 0.
    pub(crate) async fn report(&self, into: &mut Exposition) {
        let name = "tollgate_deferred_attempts_total";
        into.metric(name, "counter", "Attempts to send deferred requests, by how they went.");
        for attempt in Attempt::ALL {
            let count = self.tally.0[attempt as usize].load(Ordering::Relaxed);
            into.sample(name, &[("outcome", attempt.as_str())], count);
        }
        let Ok(summary) = self.queue.summary().await else { return };
        into.metric("tollgate_deferred", "gauge", "Deferred requests that are kept, by state.");
        for state in State::ALL {
            let count = summary.counts[state as usize];
            into.sample("tollgate_deferred", &[("state", state.as_str())], count);
        }
        let waited = summary.oldest_ms.map_or(0, |oldest| (clock::unix_ms() - oldest).max(0));
        let help = "How long the oldest deferred request has waited to be sent.";
        into.single("tollgate_deferred_age_seconds", "gauge", help, waited as f64 / 1000.0);
    }
}
