//! Metric series of decisions.
//!
//! Labels are the names of domains and rules, never input of a client, and their number is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_rules::Decision;

use super::series_slots::SeriesSlots;

/// The maximum number of series; rules beyond it share the series [`OTHER`].
pub(super) const MAX_SERIES: usize = 1000;
/// The series of all rules beyond [`MAX_SERIES`].
const OTHER: u32 = 0;
/// The series of inline limits.
pub(super) const INLINE_LIMIT: u32 = 1;
/// The series of requests that match no domain.
pub(super) const NONE: u32 = 2;

/// The label values of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesNames {
    pub(super) domain: Arc<str>,
    pub(super) rule: Arc<str>,
}

/// The series by domain, then by rule.
type SeriesByName = HashMap<Arc<str>, HashMap<Arc<str>, u32>>;

/// The table of series. A decision finds its series by the index of its rule, or else by names.
#[derive(Debug)]
pub(super) struct Series {
    slots: SeriesSlots,
    names: Mutex<Vec<SeriesNames>>,
    by_name: ArcSwap<SeriesByName>,
}

impl Series {
    pub(super) fn new() -> Series {
        let name = |rule: &str| SeriesNames { domain: "".into(), rule: rule.into() };
        Series {
            slots: SeriesSlots::default(),
            names: Mutex::new(vec![name("other"), name("brought"), name("")]),
            by_name: ArcSwap::default(),
        }
    }

    /// Returns the series of a decision by rules.
    #[inline]
    pub(super) fn for_decision(&self, decision: &Decision) -> u32 {
        match decision.rule_location() {
            Some(place) => self.slots.get_or_assign(&place, || {
                let rule = decision.rule().unwrap_or_default();
                self.by_name(decision.domain().unwrap_or_default(), rule)
            }),
            None => match (decision.domain(), decision.rule()) {
                (Some(domain), rule) => self.by_name(domain, rule.unwrap_or_default()),
                _ => NONE,
            },
        }
    }

    /// Returns the series of a rule; both names must come from rules, not from a client.
    pub(super) fn by_name(&self, domain: &str, rule: &str) -> u32 {
        let known = self.by_name.load();
        match known.get(domain).and_then(|rules| rules.get(rule)) {
            Some(series) => *series,
            None => self.add(domain, rule),
        }
    }

    #[cold]
    fn add(&self, domain: &str, rule: &str) -> u32 {
        let mut names = self.names.lock();
        let known = self.by_name.load();
        if let Some(series) = known.get(domain).and_then(|rules| rules.get(rule)) {
            return *series;
        }
        if names.len() >= MAX_SERIES {
            return OTHER;
        }
        let new = SeriesNames { domain: domain.into(), rule: rule.into() };
        let series = names.len() as u32;
        let mut all = HashMap::clone(&known);
        all.entry(new.domain.clone()).or_default().insert(new.rule.clone(), series);
        names.push(new);
        self.by_name.store(Arc::new(all));
        series
    }

    /// Returns the names of all series, in order.
    pub(super) fn names(&self) -> Vec<SeriesNames> {
        self.names.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use tollgate_rules::{Request, RuleLimiter};

    use super::*;

    #[test]
    fn a_rule_keeps_its_series_when_its_file_is_read_again() {
        let series = Series::new();
        let limiter = |text: &str| RuleLimiter::new(text.parse().unwrap());
        let text = "domain: shop\nrules: [{ name: all, limit: 10/s }]";
        let decide =
            |text| series.for_decision(&limiter(text).decide_now(&Request::empty().domain("shop")));
        let first = decide(text);
        assert_eq!((first, decide(text)), (3, 3));
        assert_eq!(&*series.names()[3].rule, "all");
        for _ in 0..200 {
            assert_eq!(decide(text), first);
        }
        assert!(series.slots.set_count() <= 64);
        let unknown = limiter(text).decide_now(&Request::empty().domain("chosen-by-a-client"));
        assert_eq!(series.for_decision(&unknown), NONE);
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let series = Series::new();
        for rule in 0..2 * MAX_SERIES {
            series.by_name("shop", &rule.to_string());
        }
        assert_eq!(series.names().len(), MAX_SERIES);
        assert_eq!(series.by_name("shop", "1999"), OTHER);
    }
}
