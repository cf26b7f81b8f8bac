//! How charges that were made in advance were settled, by rule.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::rules::SettledAs;

use super::Telemetry;
use super::exposition::Exposition;
use super::series::MOST;

const NAME: &str = "tollgate_settled_total";

/// Counters by series. Few requests are settled, so that threads share them.
#[derive(Debug)]
pub(super) struct SettledCounts(Box<[[AtomicU64; SettledAs::ALL.len()]]>);

impl Default for SettledCounts {
    fn default() -> SettledCounts {
        SettledCounts((0..MOST).map(|_| Default::default()).collect())
    }
}

impl Telemetry {
    /// A rule has settled what it charged in advance.
    pub(crate) fn settled(&self, domain: &str, rule: &str, settled: SettledAs) {
        let counts = &self.settled.0[self.series.named(domain, rule) as usize];
        let all = SettledAs::ALL.into_iter().zip(counts);
        all.filter(|(one, _)| *one == settled).for_each(|(_, count)| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    pub(super) fn report_settled(&self, into: &mut Exposition) {
        into.metric(NAME, "counter", "Charges made in advance, by what became of them.");
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
