//! The statistics of Envoy's own rate limit service, with its names, for domains in its format.
//!
//! The names and labels are those of its Prometheus exporter: the domain, then `key1`, `key2` and so on
//! for the levels of a descriptor. The original joins the levels below `key2`; here each has a label.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_rules::envoy::{DescriptorHits, HitCounts};

use super::descriptor_series::{DescriptorSeries, MAX_DESCRIPTOR_SERIES};
use super::exposition::Exposition;
use super::{DoorName, Telemetry};

/// The statistics of a descriptor: name, help, and the number of hits that it counts.
///
/// Refusals from a local cache are always 0, because limits that count refused hits are not cached. As
/// statsd does with a counter that stays 0, they have no samples.
const STATISTICS: [(&str, &str, Option<usize>); 6] = [
    ("total_hits", "Hits of a descriptor.", Some(0)),
    ("over_limit", "Hits over the limit of a descriptor.", Some(1)),
    ("near_limit", "Hits within the last fifth of the limit of a descriptor.", Some(2)),
    (
        "over_limit_with_local_cache",
        "Hits refused by a local cache; always 0, because refused hits are counted in the store.",
        None,
    ),
    ("within_limit", "Hits of requests within the limit of a descriptor.", Some(3)),
    ("shadow_mode", "Hits over the limit of a descriptor in shadow mode.", Some(4)),
];

/// The number of numbers that [`HitCounts`] has.
const COUNTS: usize = 5;

/// The hits of all series, counted by one or a few threads; allocated on first use.
#[derive(Debug, Default)]
pub(super) struct HitCounters(OnceLock<Box<[[AtomicU64; COUNTS]]>>);

impl HitCounters {
    #[inline]
    fn add(&self, series: u32, hits: &HitCounts) {
        let all =
            self.0.get_or_init(|| (0..MAX_DESCRIPTOR_SERIES).map(|_| Default::default()).collect());
        let HitCounts { total, over, near, within, shadow, .. } = *hits;
        let Some(counters) = all.get(series as usize) else { return };
        for (counter, hits) in counters.iter().zip([total, over, near, within, shadow]) {
            if hits > 0 {
                counter.fetch_add(hits, Ordering::Relaxed);
            }
        }
    }

    fn get(&self, series: usize, count: usize) -> u64 {
        let counters = self.0.get().and_then(|all| all.get(series));
        counters.map_or(0, |counters| counters[count].load(Ordering::Relaxed))
    }
}

/// A failed call of Envoy's rate limit service.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EnvoyError {
    /// The store failed.
    Store,
    /// The request is invalid.
    Request,
}

impl EnvoyError {
    const ALL: [EnvoyError; 2] = [EnvoyError::Store, EnvoyError::Request];

    /// Returns the name that Envoy's own service has for the error.
    fn as_str(self) -> &'static str {
        match self {
            EnvoyError::Store => "redis_error",
            EnvoyError::Request => "service_error",
        }
    }
}

/// What is counted for Envoy's rate limit service besides the hits.
#[derive(Debug)]
pub(super) struct EnvoyCounts {
    pub(super) series: DescriptorSeries,
    errors: [AtomicU64; EnvoyError::ALL.len()],
    unknown_domains: AtomicU64,
}

impl EnvoyCounts {
    pub(super) fn new() -> EnvoyCounts {
        EnvoyCounts {
            series: DescriptorSeries::new(),
            errors: Default::default(),
            unknown_domains: AtomicU64::new(0),
        }
    }
}

/// The value of one counter under the name that statsd has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StatsdCounter {
    pub(super) name: String,
    pub(super) value: u64,
}

impl Telemetry {
    /// Counts the hits of a descriptor.
    pub(crate) fn record_descriptor_hits(&self, hits: &DescriptorHits<'_>) {
        let series = self.envoy.series.for_hits(hits);
        self.stripe().hits.add(series, &hits.counts);
    }

    /// Counts a failed call of Envoy's rate limit service.
    pub(crate) fn record_envoy_error(&self, error: EnvoyError) {
        self.envoy.errors[error as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request to a domain that does not exist. Its name is not a label, since the client
    /// chose it.
    pub(crate) fn record_unknown_domain(&self) {
        self.envoy.unknown_domains.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the sum of all stripes; none if the series has no hits.
    fn hits(&self, series: usize) -> Option<[u64; COUNTS]> {
        let mut sums = [0; COUNTS];
        for stripe in &self.stripes {
            for (count, sum) in sums.iter_mut().enumerate() {
                *sum += stripe.hits.get(series, count);
            }
        }
        (sums[0] > 0).then_some(sums)
    }

    /// Writes the metrics of Envoy's rate limit service.
    pub(crate) fn report_envoy(&self, into: &mut Exposition) {
        let names = self.envoy.series.names();
        let hits: Vec<_> = (0..names.len()).map(|series| self.hits(series)).collect();
        for (statistic, help, count) in STATISTICS {
            let name = format!("ratelimit_service_rate_limit_{statistic}");
            into.metric(&name, "counter", help);
            for (levels, hits) in names.iter().zip(&hits) {
                let (Some(hits), Some(count)) = (hits, count) else { continue };
                let keys: Vec<String> = (1..levels.len()).map(|key| format!("key{key}")).collect();
                let label_names = std::iter::once("domain").chain(keys.iter().map(String::as_str));
                let labels: Vec<(&str, &str)> =
                    label_names.zip(levels.iter().map(|level| &**level)).collect();
                into.sample(&name, &labels, hits[count]);
            }
        }
        let name = "ratelimit_service_rate_limit_domain_not_found";
        let unknown = self.envoy.unknown_domains.load(Ordering::Relaxed);
        into.single(name, "counter", "Requests to domains that do not exist.", unknown);
        let name = "ratelimit_service_should_rate_limit_error";
        into.metric(name, "counter", "Failed calls of ShouldRateLimit, by kind of error.");
        for error in EnvoyError::ALL {
            let count = self.envoy.errors[error as usize].load(Ordering::Relaxed);
            into.sample(name, &[("err_type", error.as_str())], count);
        }
        let method = [("grpc_method", "ShouldRateLimit")];
        let times = self.histogram(|stripe| &stripe.took[DoorName::Grpc as usize]);
        let name = "ratelimit_service_total_requests";
        into.metric(name, "counter", "Calls of ShouldRateLimit that were decided.");
        into.sample(name, &method, times.counts.iter().sum::<u64>());
        let name = "ratelimit_service_response_time_seconds";
        into.metric(name, "histogram", "Duration of calls of ShouldRateLimit.");
        into.histogram(name, &method, &times);
    }

    /// Returns the counters of Envoy's rate limit service as statsd names them.
    pub(super) fn statsd_counters(&self) -> Vec<StatsdCounter> {
        let mut counters = Vec::new();
        for (series, levels) in self.envoy.series.names().iter().enumerate() {
            let Some(hits) = self.hits(series) else { continue };
            let path = levels.join(".");
            for (statistic, _, count) in STATISTICS {
                let Some(count) = count else { continue };
                let name = format!("ratelimit.service.rate_limit.{path}.{statistic}");
                counters.push(StatsdCounter { name, value: hits[count] });
            }
        }
        for error in EnvoyError::ALL {
            let name = format!("ratelimit.service.call.should_rate_limit.{}", error.as_str());
            let value = self.envoy.errors[error as usize].load(Ordering::Relaxed);
            counters.push(StatsdCounter { name, value });
        }
        let times = self.histogram(|stripe| &stripe.took[DoorName::Grpc as usize]);
        let name = "ratelimit_server.ShouldRateLimit.total_requests".to_owned();
        counters.push(StatsdCounter { name, value: times.counts.iter().sum() });
        counters
    }
}
