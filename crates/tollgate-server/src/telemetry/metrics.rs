//! The metrics of decisions, summed over all stripes.

use std::sync::atomic::Ordering;

use tollgate::StoreErrorKind;
use tollgate_rules::OnError;

use super::exposition::Exposition;
use super::stripe::{DecisionOutcome, Histogram, HistogramTotals, Stripe};
use super::{DoorName, Telemetry};

impl Telemetry {
    /// Writes the metrics of decisions, the store, connections, settlements and the gateway.
    pub(crate) fn report(&self, into: &mut Exposition) {
        self.report_decisions(into);
        self.report_shed(into);
        self.report_missing_keys(into);
        into.metric(
            "tollgate_decision_seconds",
            "histogram",
            "Duration of decisions; a decision in a batch counts with the average of the batch.",
        );
        for door in DoorName::ALL {
            let times = self.histogram(|stripe| &stripe.took[door as usize]);
            into.histogram("tollgate_decision_seconds", &[("door", door.as_str())], &times);
        }
        let help = "Duration of store calls; for the memory store, only calls timed on their own.";
        into.metric("tollgate_store_seconds", "histogram", help);
        into.histogram("tollgate_store_seconds", &[], &self.histogram(|stripe| &stripe.store));
        let help = "Time that allowed requests waited or were asked to wait.";
        into.metric("tollgate_queue_wait_seconds", "histogram", help);
        into.histogram("tollgate_queue_wait_seconds", &[], &self.histogram(|stripe| &stripe.waits));
        let help = "Failed store calls, by kind of error.";
        into.metric("tollgate_store_errors_total", "counter", help);
        for (kind, count) in StoreErrorKind::ALL.into_iter().zip(&self.store_errors) {
            let count = count.load(Ordering::Relaxed);
            into.sample("tollgate_store_errors_total", &[("kind", kind.as_str())], count);
        }
        let help = "Decisions made without the store, by failure mode of the rule (on_error).";
        into.metric("tollgate_failure_mode_total", "counter", help);
        for mode in [OnError::Allow, OnError::Deny, OnError::Local] {
            let count = self.without_store[mode as usize].load(Ordering::Relaxed);
            into.sample("tollgate_failure_mode_total", &[("mode", mode.as_str())], count);
        }
        into.metric("tollgate_connections", "gauge", "Open connections, by door.");
        for (door, open) in self.connections.lock().iter() {
            let open = open.load(Ordering::Relaxed);
            into.sample("tollgate_connections", &[("door", door)], open);
        }
        self.report_settled(into);
        self.report_gateway(into);
        self.report_auth(into);
    }

    fn report_decisions(&self, into: &mut Exposition) {
        let name = "tollgate_decisions_total";
        into.metric(name, "counter", "Decisions by rule and outcome.");
        for (series, names) in self.series.names().iter().enumerate() {
            for outcome in DecisionOutcome::ALL {
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

    pub(super) fn histogram(&self, of: impl Fn(&Stripe) -> &Histogram) -> HistogramTotals {
        let mut times = HistogramTotals::default();
        self.stripes.iter().for_each(|stripe| of(stripe).add_to(&mut times));
        times
    }
}
