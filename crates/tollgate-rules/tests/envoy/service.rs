//! The fixture of these tests: domains, a store and a clock that is moved by hand.

use std::time::Duration;

use tollgate::testing::ManualClock;
use tollgate::{MemoryStore, Time};
use tollgate_rules::envoy::{
    Code, Descriptor, DescriptorStatus, Domains, RateLimitRequest, RateLimitResponse,
};
use tollgate_rules::{Diagnostics, Source};

/// A time at which no window of any unit begins or ends: 1 January 2026, 12:00:07.5.
pub(super) const NOW: u64 = 1_767_268_807_500_000_000;

pub(super) struct Service {
    pub(super) domains: Domains,
    pub(super) store: MemoryStore,
    pub(super) clock: ManualClock,
}

/// Reads files named `0.yaml`, `1.yaml` and so on.
pub(super) fn read(files: &[&str]) -> Result<Domains, Diagnostics> {
    let named = files.iter().enumerate();
    Domains::read(named.map(|(number, text)| Source::new(format!("{number}.yaml"), *text)))
}

/// Returns a service with the domains of one file.
pub(super) fn serve(file: &str) -> Service {
    serve_all(&[file])
}

/// Returns a service with the domains of several files.
pub(super) fn serve_all(files: &[&str]) -> Service {
    let clock = ManualClock::at(Time::from_nanos(NOW));
    let store = MemoryStore::new().clock(&clock);
    let domains = read(files).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    Service { domains, store, clock }
}

impl Service {
    /// Replaces the files by one, and keeps the counters.
    pub(super) fn reload(&mut self, file: &str) {
        self.domains = read(&[file]).unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    }

    pub(super) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(super) fn decide(&self, request: &RateLimitRequest<'_>) -> RateLimitResponse {
        self.domains.decide(&self.store, request)
    }

    /// Decides several descriptors in the domain `d`.
    pub(super) fn decide_all(&self, descriptors: &[Descriptor<'_>]) -> RateLimitResponse {
        self.decide(&RateLimitRequest::new("d", descriptors))
    }

    /// Decides one descriptor in the domain `d`.
    pub(super) fn decide_one(&self, descriptor: Descriptor<'_>) -> DescriptorStatus {
        self.decide_all(&[descriptor]).statuses[0].clone()
    }

    /// Decides a descriptor that has these entries and the default cost.
    pub(super) fn hit(&self, entries: &[(&str, &str)]) -> DescriptorStatus {
        self.decide_one(Descriptor::new(entries))
    }

    /// Returns the number of hits that pass in a row, at most ten.
    pub(super) fn passes(&self, entries: &[(&str, &str)]) -> usize {
        (0..10).take_while(|_| self.hit(entries).code == Code::Ok).count()
    }

    /// Returns the number of requests that the applicable limit allows.
    pub(super) fn limit(&self, entries: &[(&str, &str)]) -> Option<u32> {
        self.hit(entries).current_limit.map(|limit| limit.requests_per_unit)
    }
}

/// Returns a descriptor that costs `hits`.
pub(super) fn with_hits<'a>(entries: &'a [(&'a str, &'a str)], hits: u64) -> Descriptor<'a> {
    Descriptor { hits: Some(hits), ..Descriptor::new(entries) }
}
