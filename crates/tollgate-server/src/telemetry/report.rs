//! The metrics of decisions, added up.

use std::sync::atomic::Ordering;

use tollgate::StoreErrorKind;
use tollgate::rules::OnError;

use super::exposition::Exposition;
use super::stripe::{Histogram, Outcome, Stripe, Times};
use super::{DoorName, Telemetry};

impl Telemetry {
    /// Writes every metric that is counted here.
    pub(crate) fn report(&self, into: &mut Exposition) {
        self.report_decisions(into);
        self.report_shed(into);
        into.metric(
            "tollgate_decision_seconds",
            "histogram",
            "How long decisions took; of a batch, each its share.",
        );
        for door in DoorName::ALL {
            let times = self.times(|stripe| &stripe.took[door as usize]);
            into.times("tollgate_decision_seconds", &[("door", door.as_str())], &times);
        }
        let help = "How long the store took; in memory only where it was timed apart from rules.";
        into.metric("tollgate_store_seconds", "histogram", help);
        into.times("tollgate_store_seconds", &[], &self.times(|stripe| &stripe.store));
        let help = "How long allowed requests waited, or were told to.";
        into.metric("tollgate_queue_wait_seconds", "histogram", help);
        into.times("tollgate_queue_wait_seconds", &[], &self.times(|stripe| &stripe.waits));
        let help = "Questions that the store did not answer.";
        into.metric("tollgate_store_errors_total", "counter", help);
        for (kind, count) in StoreErrorKind::ALL.into_iter().zip(&self.store_errors) {
            let count = count.load(Ordering::Relaxed);
            into.sample("tollgate_store_errors_total", &[("kind", kind.as_str())], count);
        }
        let help = "Decisions made without the store, by what the rule does then.";
        into.metric("tollgate_failure_mode_total", "counter", help);
        for mode in [OnError::Allow, OnError::Deny, OnError::Local] {
            let count = self.without_store[mode as usize].load(Ordering::Relaxed);
            into.sample("tollgate_failure_mode_total", &[("mode", mode.as_str())], count);
        }
        into.metric("tollgate_connections", "gauge", "Open connections.");
        for (door, open) in self.connections.lock().iter() {
            let open = open.load(Ordering::Relaxed);
            into.sample("tollgate_connections", &[("door", door)], open);
        }
        self.report_settled(into);
        self.report_passed(into);
    }

    fn report_decisions(&self, into: &mut Exposition) {
        let name = "tollgate_decisions_total";
        into.metric(name, "counter", "Decisions by rule and outcome.");
        for (series, names) in self.series.names().iter().enumerate() {
            for outcome in Outcome::ALL {
                let counter = |stripe: &Stripe| {
                    stripe.counter(series as u32, outcome).load(Ordering::Relaxed)
                };
                let count: u64 = self.stripes.iter().map(counter).sum();
                if count > 0 {
                    let labels = [
                        ("domain", &*names.domain),
                        ("rule", &*names.rule),
                        ("outcome", outcome.as_str()),
                    ];
                    into.sample(name, &labels, count);
                }
            }
        }
    }

    fn times(&self, of: impl Fn(&Stripe) -> &Histogram) -> Times {
        let mut times = Times::default();
        self.stripes.iter().for_each(|stripe| of(stripe).add_to(&mut times));
        times
    }
}
