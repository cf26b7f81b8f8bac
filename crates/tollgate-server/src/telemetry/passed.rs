//! What the gateway tells: how requests were answered, how long upstreams took, and how they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hyper::StatusCode;
use tollgate::Span;

use super::Telemetry;
use super::exposition::Exposition;
use super::stripe::{Histogram, Times};

/// Classes of status codes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Who made an answer.
const FROM: [&str; 2] = ["gateway", "upstream"];

/// What some threads count of the gateway.
#[derive(Debug, Default)]
pub(super) struct Passed {
    answers: [[AtomicU64; CLASSES.len()]; FROM.len()],
    upstream: Histogram,
}

impl Telemetry {
    /// A request was answered, by an upstream or by the gateway itself.
    pub(crate) fn passed(&self, status: StatusCode, is_upstream: bool) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        let answers = &self.stripe().passed.answers[usize::from(is_upstream)];
        answers[class].fetch_add(1, Ordering::Relaxed);
    }

    /// An upstream took so long for the head of its answer.
    pub(crate) fn upstream_took(&self, span: Span) {
        self.stripe().passed.upstream.record(1, span);
    }

    /// Whether an upstream is well, to be kept up to date.
    pub(crate) fn upstream(&self, name: &str) -> Arc<AtomicBool> {
        let well = Arc::new(AtomicBool::new(true));
        self.upstreams.lock().push((name.into(), well.clone()));
        well
    }

    /// What the upstreams of the gateway are called.
    pub(crate) fn upstream_names(&self) -> Vec<Box<str>> {
        self.upstreams.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn report_passed(&self, into: &mut Exposition) {
        let upstreams = self.upstreams.lock();
        if upstreams.is_empty() {
            return;
        }
        let name = "tollgate_gateway_requests_total";
        into.metric(name, "counter", "Requests to the gateway, by who answered and how.");
        for (number, from) in FROM.iter().enumerate() {
            for (class, code) in CLASSES.iter().enumerate() {
                let count = self
                    .stripes
                    .iter()
                    .map(|stripe| stripe.passed.answers[number][class].load(Ordering::Relaxed));
                into.sample(name, &[("from", from), ("code", code)], count.sum::<u64>());
            }
        }
        let name = "tollgate_gateway_upstream_seconds";
        into.metric(name, "histogram", "How long upstreams took for the head of an answer.");
        let mut times = Times::default();
        self.stripes.iter().for_each(|stripe| stripe.passed.upstream.add_to(&mut times));
        into.times(name, &[], &times);
        let name = "tollgate_gateway_upstream_healthy";
        into.metric(name, "gauge", "Whether an upstream is sent requests.");
        for (upstream, well) in upstreams.iter() {
            let well = u8::from(well.load(Ordering::Relaxed));
            into.sample(name, &[("upstream", upstream)], well);
        }
    }
}
