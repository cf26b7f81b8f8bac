//! The measurements of one simulated scenario.

/// The measurements of one simulated scenario.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Good responses in each tenth of a second.
    good: Vec<u32>,
    /// A histogram of latencies, in steps of about 3 %.
    latencies: Vec<u64>,
    pub(crate) dropped: u64,
    pub(crate) highest: u64,
    /// The limit at each second.
    pub(crate) limits: Vec<u64>,
}

/// Histogram steps per doubling.
const STEPS: f64 = 24.0;

impl Outcome {
    pub(crate) fn new(seconds: f64) -> Outcome {
        let good = vec![0; (seconds * 10.0).ceil() as usize];
        Outcome { good, latencies: vec![0; 1024], dropped: 0, highest: 0, limits: Vec::new() }
    }

    pub(crate) fn record_limit(&mut self, limit: u64) {
        self.limits.push(limit);
    }

    pub(crate) fn record_response(
        &mut self,
        now_ns: u64,
        took_ns: u64,
        dropped: bool,
        in_time: bool,
    ) {
        if dropped {
            self.dropped += 1;
            return;
        }
        let step = ((took_ns as f64 / 1e3).max(1.0).log2() * STEPS) as usize;
        self.latencies[step.min(1023)] += 1;
        if in_time {
            self.good[(now_ns / 100_000_000) as usize] += 1;
        }
    }

    /// Returns the good responses between two seconds.
    pub(crate) fn good(&self, from: f64, until: f64) -> u64 {
        let at = |second: f64| ((second * 10.0).round() as usize).min(self.good.len());
        self.good[at(from)..at(until)].iter().map(|count| u64::from(*count)).sum()
    }

    pub(crate) fn all_good(&self) -> u64 {
        self.good(0.0, f64::MAX)
    }

    /// Returns the 99th percentile of latency, in milliseconds.
    pub(crate) fn p99_ms(&self) -> f64 {
        let all: u64 = self.latencies.iter().sum();
        let mut slower = all / 100;
        for (step, count) in self.latencies.iter().enumerate().rev() {
            if *count > slower {
                return ((step + 1) as f64 / STEPS).exp2() / 1e3;
            }
            slower -= count;
        }
        0.0
    }
}
