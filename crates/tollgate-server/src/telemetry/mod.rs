//! What is told about decisions: metrics, who is noisy, the live tail, sampled logs and traces.
//!
//! Every door reports each decision here once, after it is made. It must cost next to nothing: no
//! lock that all share, no allocation, no label that a client chose.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::rules::Decision;
use tollgate::rules::envoy::{Code, RateLimitAnswer, RateLimitRequest};
use tollgate::{Span, Verdict};

use crate::config::TelemetryOptions;

/// A way in, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoorName {
    /// Decisions asked for by HTTP.
    Http,
    /// Forward-auth.
    Auth,
    /// Envoy's rate limit service, by gRPC or `POST /json`.
    Grpc,
    /// The Redis protocol.
    Resp,
}

impl DoorName {
    /// Its name in metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            DoorName::Http => "http",
            DoorName::Auth => "auth",
            DoorName::Grpc => "grpc",
            DoorName::Resp => "resp",
        }
    }
}

/// What becomes of every decision beside its answer.
#[derive(Debug)]
pub struct Telemetry {
    allowed: AtomicU64,
    denied: AtomicU64,
}

impl Telemetry {
    pub(crate) fn new(_options: &TelemetryOptions) -> Telemetry {
        Telemetry { allowed: AtomicU64::new(0), denied: AtomicU64::new(0) }
    }

    /// Rules decided.
    pub(crate) fn decided(&self, _door: DoorName, decision: &Decision, _cost: u64) {
        self.count(decision.allowed);
    }

    /// A limit that the caller brought along decided about `key`.
    pub(crate) fn limited(&self, _door: DoorName, _key: &[u8], verdict: &Verdict, _cost: u64) {
        self.count(verdict.allowed);
    }

    /// Envoy was answered. The domain and the entries are the client's: only where a status has a
    /// limit are they known to the rules.
    pub(crate) fn enveloped(
        &self,
        _door: DoorName,
        _request: &RateLimitRequest<'_>,
        answer: &RateLimitAnswer,
    ) {
        self.count(answer.overall == Code::Ok);
    }

    /// So many decisions were made at once and took this long together.
    pub(crate) fn took(&self, _door: DoorName, _decisions: u64, _span: Span) {}

    fn count(&self, allowed: bool) {
        let counter = if allowed { &self.allowed } else { &self.denied };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
