//! A service to ask: domains, a store and a clock that stands still.

use std::time::Duration;

use tollgate::rules::envoy::{
    Code, Descriptor, DescriptorStatus, Domains, RateLimitAnswer, RateLimitRequest,
};
use tollgate::rules::{Diagnostics, Source};
use tollgate::testing::ManualClock;
use tollgate::{MemoryStore, Time};

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

/// A service that was given one file.
pub(super) fn serve(file: &str) -> Service {
    serve_all(&[file])
}

pub(super) fn serve_all(files: &[&str]) -> Service {
    let clock = ManualClock::at(Time::from_nanos(NOW));
    let store = MemoryStore::new().clock(&clock);
    let domains = read(files).unwrap_or_else(|found| panic!("{found}"));
    Service { domains, store, clock }
}

impl Service {
    /// The files are edited; counters stay.
    pub(super) fn reload(&mut self, file: &str) {
        self.domains = read(&[file]).unwrap_or_else(|found| panic!("{found}"));
    }

    pub(super) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(super) fn decide(&self, request: &RateLimitRequest<'_>) -> RateLimitAnswer {
        self.domains.decide(&self.store, request)
    }

    /// Asks the domain `d` about several descriptors.
    pub(super) fn ask_all(&self, descriptors: &[Descriptor<'_>]) -> RateLimitAnswer {
        self.decide(&RateLimitRequest::new("d", descriptors))
    }

    /// Asks the domain `d` about one descriptor.
    pub(super) fn ask(&self, descriptor: Descriptor<'_>) -> DescriptorStatus {
        self.ask_all(&[descriptor]).statuses[0].clone()
    }

    /// The same, about entries.
    pub(super) fn hit(&self, entries: &[(&str, &str)]) -> DescriptorStatus {
        self.ask(Descriptor::new(entries))
    }

    /// How many hits pass in a row, ten at most.
    pub(super) fn passes(&self, entries: &[(&str, &str)]) -> usize {
        (0..10).take_while(|_| self.hit(entries).code == Code::Ok).count()
    }

    /// Which limit applies: how many it allows.
    pub(super) fn limit(&self, entries: &[(&str, &str)]) -> Option<u32> {
        self.hit(entries).current_limit.map(|limit| limit.requests_per_unit)
    }
}

/// A descriptor that costs so much.
pub(super) fn costs<'a>(entries: &'a [(&'a str, &'a str)], hits: u64) -> Descriptor<'a> {
    Descriptor { hits: Some(hits), ..Descriptor::new(entries) }
}
