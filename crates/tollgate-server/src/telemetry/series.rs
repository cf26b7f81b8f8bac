//! Metric series of decisions.
//!
//! Labels are the names of domains and rules, never input of a client, and their number is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate_rules::{Decision, RuleLocation};

/// The maximum number of series; rules beyond it share the series [`OTHER`].
pub(super) const MAX_SERIES: usize = 1000;
/// The series of all rules beyond [`MAX_SERIES`].
const OTHER: u32 = 0;
/// The series of inline limits.
pub(super) const INLINE_LIMIT: u32 = 1;
/// The series of requests that match no domain.
pub(super) const NONE: u32 = 2;
/// The maximum number of compiled rule sets with a table; older ones are looked up by name.
const SETS: usize = 64;
const UNKNOWN: u32 = u32::MAX;

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
    sets: ArcSwap<Vec<Arc<RuleSetSeries>>>,
    names: Mutex<Vec<SeriesNames>>,
    by_name: ArcSwap<SeriesByName>,
}

/// The series of the rules of one compiled domain, filled on first use.
#[derive(Debug)]
struct RuleSetSeries {
    number: u64,
    /// One series per rule; the last is for requests that no rule decided.
    series: Box<[AtomicU32]>,
}

impl Series {
    pub(super) fn new() -> Series {
        let name = |rule: &str| SeriesNames { domain: "".into(), rule: rule.into() };
        Series {
            sets: ArcSwap::default(),
            names: Mutex::new(vec![name("other"), name("brought"), name("")]),
            by_name: ArcSwap::default(),
        }
    }

    /// Returns the series of a decision by rules.
    #[inline]
    pub(super) fn for_decision(&self, decision: &Decision) -> u32 {
        match decision.rule_location() {
            Some(place) => {
                let sets = self.sets.load();
                let known = sets.iter().find(|set| set.number == place.set);
                match known.map(|set| set.slot(&place).load(Ordering::Relaxed)) {
                    Some(series) if series != UNKNOWN => series,
                    _ => self.assign(&place, decision),
                }
            }
            None => match (decision.domain(), decision.rule()) {
                (Some(domain), rule) => self.by_name(domain, rule.unwrap_or_default()),
                _ => NONE,
            },
        }
    }

    #[cold]
    fn assign(&self, place: &RuleLocation, decision: &Decision) -> u32 {
        let rule = decision.rule().unwrap_or_default();
        let series = self.by_name(decision.domain().unwrap_or_default(), rule);
        let find = |sets: &Vec<Arc<RuleSetSeries>>| {
            sets.iter().find(|set| set.number == place.set).cloned()
        };
        let set = find(&self.sets.load()).unwrap_or_else(|| {
            let series = (0..=place.of).map(|_| AtomicU32::new(UNKNOWN)).collect();
            let new = Arc::new(RuleSetSeries { number: place.set, series });
            self.sets.rcu(|sets| {
                // The newest set comes first, because it makes most decisions from now on.
                let older = sets.iter().filter(|set| set.number != new.number).take(SETS - 1);
                std::iter::once(&new).chain(older).cloned().collect::<Vec<_>>()
            });
            new
        });
        set.slot(place).store(series, Ordering::Relaxed);
        series
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

impl RuleSetSeries {
    #[inline]
    fn slot(&self, place: &RuleLocation) -> &AtomicU32 {
        let last = self.series.len() - 1;
        &self.series[place.rule.map_or(last, |rule| (rule as usize).min(last))]
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
        for _ in 0..2 * SETS {
            assert_eq!(decide(text), first);
        }
        assert!(series.sets.load().len() <= SETS);
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
