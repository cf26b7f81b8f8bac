//! The latencies that clients see, by door.

use std::time::Duration;

use parking_lot::Mutex;

/// A door under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SoakDoor {
    Http,
    Resp,
    Grpc,
    Auth,
    Gateway,
    /// No door: the stub upstream, asked directly. It is as slow as the machine is.
    Control,
}

/// All doors under load, the control last.
pub(crate) const DOORS: [SoakDoor; 6] = [
    SoakDoor::Http,
    SoakDoor::Resp,
    SoakDoor::Grpc,
    SoakDoor::Auth,
    SoakDoor::Gateway,
    SoakDoor::Control,
];

impl SoakDoor {
    /// Returns the name in the report.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SoakDoor::Http => "http",
            SoakDoor::Resp => "resp",
            SoakDoor::Grpc => "grpc",
            SoakDoor::Auth => "auth",
            SoakDoor::Gateway => "gateway",
            SoakDoor::Control => "control",
        }
    }
}

/// The latencies of an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IntervalLatency {
    pub(crate) requests: usize,
    pub(crate) p99: Duration,
}

/// Collects latencies; an interval has no more of them than the rate allows.
#[derive(Debug, Default)]
pub(crate) struct LatencyRecorder {
    doors: [Mutex<Vec<Duration>>; DOORS.len()],
    /// The number of requests without an answer, and the first reason.
    failures: Mutex<(usize, Option<String>)>,
}

impl LatencyRecorder {
    pub(crate) fn record(&self, door: SoakDoor, took: Duration) {
        self.doors[door as usize].lock().push(took);
    }

    /// Records a request without an answer.
    pub(crate) fn record_failure(&self, door: SoakDoor, reason: &str) {
        let mut failures = self.failures.lock();
        failures.0 += 1;
        failures.1.get_or_insert_with(|| format!("{}: {reason}", door.as_str()));
    }

    /// Returns the requests without an answer, and the reason of the first.
    pub(crate) fn failures(&self) -> (usize, Option<String>) {
        self.failures.lock().clone()
    }

    /// Returns the latencies since the last call.
    pub(crate) fn take(&self, door: SoakDoor) -> IntervalLatency {
        let mut all = std::mem::take(&mut *self.doors[door as usize].lock());
        all.sort_unstable();
        let percentile = |of: usize| {
            let last = all.len().saturating_sub(1);
            all.get((all.len() * of / 100).min(last)).copied().unwrap_or_default()
        };
        IntervalLatency { requests: all.len(), p99: percentile(99) }
    }
}
