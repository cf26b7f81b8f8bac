//! Requests that were shed, by their priority: a word of the rules, never of a client.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::rules::{Decision, Priority};

use super::Telemetry;
use super::exposition::Exposition;
use super::series::MOST;

/// How many were shed, by series and priority. Refusals alone come here, so threads share it.
#[derive(Debug)]
pub(super) struct Sheds(Box<[AtomicU64]>);

impl Sheds {
    pub(super) fn new() -> Sheds {
        Sheds((0..MOST * Priority::ALL.len()).map(|_| AtomicU64::new(0)).collect())
    }

    #[cold]
    pub(super) fn count(&self, series: u32, priority: Priority) {
        self.of(series as usize, priority).fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, series: usize, priority: Priority) -> &AtomicU64 {
        &self.0[series * Priority::ALL.len() + priority as usize]
    }
}

impl Telemetry {
    /// A decision of that series, if it dropped the request.
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
                let count = self.sheds.of(series, priority).load(Ordering::Relaxed);
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
