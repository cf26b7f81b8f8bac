//! Metrics of deferred requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::Deferred;
use super::item::ItemState;
use crate::clock;
use crate::telemetry::Exposition;

/// The maximum time for counting the requests in the queue.
const SUMMARY_TIMEOUT: Duration = Duration::from_millis(500);

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// The upstream sent a final response.
    Done,
    /// The request will be tried again.
    Retry,
    /// The last attempt failed; the request is a dead letter.
    Failed,
    /// No upstream could be reached.
    Unreachable,
}

impl AttemptOutcome {
    const ALL: [AttemptOutcome; 4] = [
        AttemptOutcome::Done,
        AttemptOutcome::Retry,
        AttemptOutcome::Failed,
        AttemptOutcome::Unreachable,
    ];

    fn as_str(self) -> &'static str {
        match self {
            AttemptOutcome::Done => "done",
            AttemptOutcome::Retry => "retry",
            AttemptOutcome::Failed => "failed",
            AttemptOutcome::Unreachable => "unreachable",
        }
    }
}

/// The number of attempts by outcome.
#[derive(Debug, Default)]
pub(super) struct AttemptCounts([AtomicU64; AttemptOutcome::ALL.len()]);

impl AttemptCounts {
    pub(super) fn count(&self, attempt: AttemptOutcome) {
        self.0[attempt as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Deferred {
    /// Writes the metrics of deferred requests.
    ///
    /// If the queue cannot be read in time, the gauges are left out, because an unknown number is
    /// not 0.
    pub(crate) async fn report(&self, into: &mut Exposition) {
        let name = "tollgate_deferred_attempts_total";
        into.metric(name, "counter", "Attempts to send deferred requests, by outcome.");
        for attempt in AttemptOutcome::ALL {
            let count = self.attempts.0[attempt as usize].load(Ordering::Relaxed);
            into.sample(name, &[("outcome", attempt.as_str())], count);
        }
        // A stalled disk is not asked, because each question would wait in its queue.
        if self.stalled_for().is_some() {
            return;
        }
        let Ok(Ok(summary)) = timeout(SUMMARY_TIMEOUT, self.queue.summary()).await else { return };
        into.metric("tollgate_deferred", "gauge", "Stored deferred requests, by state.");
        for state in ItemState::ALL {
            let count = summary.counts[state as usize];
            into.sample("tollgate_deferred", &[("state", state.as_str())], count);
        }
        let waited = summary.oldest_ms.map_or(0, |oldest| (clock::unix_ms() - oldest).max(0));
        let help = "Age of the oldest deferred request that is still to be sent.";
        into.single("tollgate_deferred_age_seconds", "gauge", help, waited as f64 / 1000.0);
    }
}
