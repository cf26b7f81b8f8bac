//! Metrics of reservations.

use std::sync::atomic::{AtomicU64, Ordering};

use super::table::{ReservationTable, ReservationsFull};
use crate::decisions::DecisionService;
use crate::telemetry::Exposition;

/// The number of rejected reservations, by reason.
#[derive(Debug, Default)]
pub(super) struct RejectionCounts {
    total: AtomicU64,
    owner: AtomicU64,
}

impl RejectionCounts {
    pub(super) fn count(&self, full: ReservationsFull) {
        let counter = match full {
            ReservationsFull::Total => &self.total,
            ReservationsFull::Owner(_) => &self.owner,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl DecisionService {
    /// Writes the metrics of reservations.
    pub(crate) fn report_reservations(&self, into: &mut Exposition) {
        let table: &ReservationTable = &self.0.reservations;
        let usage = table.usage();
        let help = "Open reservations, and expired ones that are still remembered.";
        into.single("tollgate_reservations", "gauge", help, usage.count);
        let help = "Memory of open reservations.";
        into.single("tollgate_reservation_bytes", "gauge", help, usage.bytes);
        let name = "tollgate_reservations_rejected_total";
        let help = "Rejected reservations: their client used its share, or all clients the memory.";
        into.metric(name, "counter", help);
        for (reason, counter) in
            [("share", &table.rejections.owner), ("full", &table.rejections.total)]
        {
            into.sample(name, &[("reason", reason)], counter.load(Ordering::Relaxed));
        }
    }
}
