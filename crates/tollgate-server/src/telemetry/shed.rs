//! Metrics of shed requests. The label `priority` comes from the rules, never from a client.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_rules::{Decision, Priority};

use super::Telemetry;
use super::exposition::Exposition;
use super::series::MAX_SERIES;

/// The number of shed requests by series and priority. Threads share it, because they are few.
#[derive(Debug)]
pub(super) struct ShedCounts(Box<[AtomicU64]>);

impl ShedCounts {
    pub(super) fn new() -> ShedCounts {
        ShedCounts((0..MAX_SERIES * Priority::ALL.len()).map(|_| AtomicU64::new(0)).collect())
    }

    #[cold]
    pub(super) fn count(&self, series: u32, priority: Priority) {
        self.counter(series as usize, priority).fetch_add(1, Ordering::Relaxed);
    }

    fn counter(&self, series: usize, priority: Priority) -> &AtomicU64 {
        &self.0[series * Priority::ALL.len() + priority as usize]
    }
}

impl Telemetry {
    /// Counts a decision if it shed the request.
    #[inline]
    pub(super) fn count_shed(&self, series: u32, decision: &Decision) {
        if let Some(priority) = decision.shed() {
            self.sheds.count(series, priority);
        }
    }

    pub(super) fn report_shed(&self, into: &mut Exposition) {
        let name = "tollgate_shed_total";
        into.metric(name, "counter", "Requests that were shed, by rule and priority.");
        for (series, names) in self.series.names().iter().enumerate() {
            for priority in Priority::ALL {
                let count = self.sheds.counter(series, priority).load(Ordering::Relaxed);
                if count > 0 {
                    let labels = [
                        ("domain", &*names.domain),
                        ("rule", &*names.rule),
                        ("priority", priority.as_str()),
                    ];
                    into.sample(name, &labels, count);
                }
            }
        }
    }
}
