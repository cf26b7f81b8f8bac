//! The state of the snapshots, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::telemetry::Exposition;

/// The state of the snapshots.
#[derive(Debug)]
pub(crate) struct SnapshotStatus {
    /// The time at which the last snapshot was begun; at first, that of the start.
    current_at_ms: AtomicU64,
    written: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
    took_ms: AtomicU64,
}

impl SnapshotStatus {
    pub(super) fn new() -> SnapshotStatus {
        SnapshotStatus {
            current_at_ms: AtomicU64::new(clock::monotonic_ms()),
            written: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            took_ms: AtomicU64::new(0),
        }
    }

    /// Records that the file has the state of a moment.
    pub(super) fn record_current(&self, at_ms: u64) {
        self.current_at_ms.store(at_ms, Ordering::Relaxed);
    }

    /// Records a written snapshot.
    pub(super) fn record_written(&self, bytes: u64, took_ms: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.took_ms.store(took_ms, Ordering::Relaxed);
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a snapshot that could not be written.
    pub(super) fn record_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes the metrics.
    pub(crate) fn report(&self, text: &mut Exposition) {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let seconds = |ms: u64| ms as f64 / 1000.0;
        let age = clock::monotonic_ms().saturating_sub(load(&self.current_at_ms));
        let help = "Age of what a crash would leave: seconds since the last snapshot was begun.";
        text.single("tollgate_snapshot_age_seconds", "gauge", help, seconds(age));
        let help = "Snapshots of the memory store that were written.";
        text.single("tollgate_snapshots_total", "counter", help, load(&self.written));
        let help = "Snapshots of the memory store that could not be written.";
        text.single("tollgate_snapshot_errors_total", "counter", help, load(&self.errors));
        let help = "Size of the last snapshot.";
        text.single("tollgate_snapshot_bytes", "gauge", help, load(&self.bytes));
        let help = "Time to write the last snapshot.";
        text.single("tollgate_snapshot_seconds", "gauge", help, seconds(load(&self.took_ms)));
    }
}
