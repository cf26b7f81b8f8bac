//! Metrics of the gateway: responses, upstream durations and upstream health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hyper::StatusCode;
use tollgate::Span;

use super::Telemetry;
use super::exposition::Exposition;
use super::stripe::{Histogram, HistogramTotals};

/// Classes of status codes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// The possible senders of a response.
const FROM: [&str; 2] = ["gateway", "upstream"];

/// The gateway counters of one stripe.
#[derive(Debug, Default)]
pub(super) struct GatewayCounters {
    responses: [[AtomicU64; CLASSES.len()]; FROM.len()],
    upstream: Histogram,
}

impl Telemetry {
    /// Counts a response of an upstream or of the gateway itself.
    pub(crate) fn record_gateway_response(&self, status: StatusCode, is_upstream: bool) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        let responses = &self.stripe().gateway.responses[usize::from(is_upstream)];
        responses[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Records the time until an upstream sent the head of its response.
    pub(crate) fn record_upstream_duration(&self, span: Span) {
        self.stripe().gateway.upstream.record(1, span);
    }

    /// Registers an upstream and returns the flag of its health, which the caller updates.
    pub(crate) fn register_upstream(&self, name: &str) -> Arc<AtomicBool> {
        let healthy = Arc::new(AtomicBool::new(true));
        self.upstreams.lock().push((name.into(), healthy.clone()));
        healthy
    }

    /// Returns the names of the gateway's upstreams.
    pub(crate) fn upstream_names(&self) -> Vec<Box<str>> {
        self.upstreams.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn report_gateway(&self, into: &mut Exposition) {
        let upstreams = self.upstreams.lock();
        if upstreams.is_empty() {
            return;
        }
        let name = "tollgate_gateway_requests_total";
        into.metric(
            name,
            "counter",
            "Requests to the gateway, by sender and class of the response.",
        );
        for (number, from) in FROM.iter().enumerate() {
            for (class, code) in CLASSES.iter().enumerate() {
                let count = self
                    .stripes
                    .iter()
                    .map(|stripe| stripe.gateway.responses[number][class].load(Ordering::Relaxed));
                into.sample(name, &[("from", from), ("code", code)], count.sum::<u64>());
            }
        }
        let name = "tollgate_gateway_upstream_seconds";
        into.metric(name, "histogram", "Time until upstreams sent the head of their response.");
        let mut times = HistogramTotals::default();
        self.stripes.iter().for_each(|stripe| stripe.gateway.upstream.add_to(&mut times));
        into.histogram(name, &[], &times);
        let name = "tollgate_gateway_upstream_healthy";
        into.metric(name, "gauge", "1 if an upstream is healthy and receives requests, else 0.");
        for (upstream, healthy) in upstreams.iter() {
            let healthy = u8::from(healthy.load(Ordering::Relaxed));
            into.sample(name, &[("upstream", upstream)], healthy);
        }
    }
}
