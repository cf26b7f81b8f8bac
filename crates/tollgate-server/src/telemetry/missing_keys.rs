//! Metrics and warnings about requests that lack an attribute of a rule's key.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tollgate_rules::Decision;

use super::exposition::Exposition;
use super::series::MAX_SERIES;
use super::{DoorName, Telemetry};

/// The number of requests with an incomplete key, by series. Threads share it, because a rule that
/// many requests miss the key of is a mistake.
#[derive(Debug)]
pub(super) struct MissingKeyCounts(Box<[MissingKeyCount]>);

#[derive(Debug, Default)]
struct MissingKeyCount {
    requests: AtomicU64,
    /// Whether a warning has been logged for the door.
    warned: [AtomicBool; DoorName::ALL.len()],
}

impl MissingKeyCounts {
    pub(super) fn new() -> MissingKeyCounts {
        MissingKeyCounts((0..MAX_SERIES).map(|_| MissingKeyCount::default()).collect())
    }
}

impl Telemetry {
    /// Counts the rules whose keys lack an attribute, and warns about each once for every door.
    #[cold]
    pub(super) fn record_missing_keys(&self, door: DoorName, decision: &Decision) {
        let domain = decision.domain().unwrap_or_default();
        for key in decision.incomplete_keys() {
            self.record_missing_key(door, domain, key.rule(), || key.attributes());
        }
    }

    /// Counts a request that lacks attributes of the key of a rule.
    #[cold]
    pub(super) fn record_missing_key(
        &self,
        door: DoorName,
        domain: &str,
        rule: &str,
        missing: impl FnOnce() -> Vec<String>,
    ) {
        let series = self.series.by_name(domain, rule);
        let Some(count) = self.missing_keys.0.get(series as usize) else { return };
        count.requests.fetch_add(1, Ordering::Relaxed);
        if !count.warned[door as usize].swap(true, Ordering::Relaxed) {
            tracing::warn!(
                door = door.as_str(),
                domain,
                rule,
                missing = missing().join(", "),
                "requests lack an attribute that the rule counts by; all such requests share one \
                 counter (`missing_key` sets another behaviour)"
            );
        }
    }

    pub(super) fn report_missing_keys(&self, into: &mut Exposition) {
        let name = "tollgate_missing_key_total";
        let help = "Requests that lack an attribute of the key of a rule and share one counter.";
        into.metric(name, "counter", help);
        for (names, count) in self.series.names().iter().zip(&self.missing_keys.0) {
            let count = count.requests.load(Ordering::Relaxed);
            if count > 0 {
                let labels = [("domain", &*names.domain), ("rule", &*names.rule)];
                into.sample(name, &labels, count);
            }
        }
    }
}
