//! Metrics of settlements: what became of charges made in advance, by rule.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_rules::SettledAs;

use super::Telemetry;
use super::exposition::Exposition;
use super::series::MAX_SERIES;

const NAME: &str = "tollgate_settled_total";

/// The number of settlements by series and outcome. Threads share it, because settlements are few.
#[derive(Debug)]
pub(super) struct SettlementCounts(Box<[[AtomicU64; SettledAs::ALL.len()]]>);

impl Default for SettlementCounts {
    fn default() -> SettlementCounts {
        SettlementCounts((0..MAX_SERIES).map(|_| Default::default()).collect())
    }
}

impl Telemetry {
    /// Counts a settlement of a charge that a rule made in advance.
    pub(crate) fn record_settlement(&self, domain: &str, rule: &str, settled: SettledAs) {
        let counts = &self.settled.0[self.series.by_name(domain, rule) as usize];
        let all = SettledAs::ALL.into_iter().zip(counts);
        all.filter(|(one, _)| *one == settled).for_each(|(_, count)| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(super) fn report_settled(&self, into: &mut Exposition) {
        into.metric(
            NAME,
            "counter",
            "Charges made in advance, by rule and outcome of the settlement.",
        );
        for (names, counts) in self.series.names().iter().zip(&self.settled.0) {
            for (settled, count) in SettledAs::ALL.into_iter().zip(counts) {
                let count = count.load(Ordering::Relaxed);
                let outcome = settled.as_str();
                let labels =
                    [("domain", &*names.domain), ("rule", &*names.rule), ("outcome", outcome)];
                if count > 0 {
                    into.sample(NAME, &labels, count);
                }
            }
        }
    }
}
