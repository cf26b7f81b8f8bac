//! Which series of a metric a decision belongs to. Labels are names of domains and rules, never
//! what a client sent, and there are only so many.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tollgate::rules::{Decision, RulePlace};

/// So many series there are; what comes later shares the first.
pub(super) const MOST: usize = 1000;
/// Everything there is no room for.
const OTHER: u32 = 0;
/// Limits that callers bring along.
pub(super) const BROUGHT: u32 = 1;
/// Requests about which nothing is known.
pub(super) const NONE: u32 = 2;
/// Sets of rules that are remembered; those before are looked up by name again.
const SETS: usize = 64;
const UNKNOWN: u32 = u32::MAX;

/// The names of a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Names {
    pub(super) domain: Arc<str>,
    pub(super) rule: Arc<str>,
}

/// Series by domain, then by rule.
type ByName = HashMap<Arc<str>, HashMap<Arc<str>, u32>>;

/// Finds the series of a decision: by the place of its rule, which takes no time, or by names.
#[derive(Debug)]
pub(super) struct Series {
    sets: ArcSwap<Vec<Arc<Set>>>,
    names: Mutex<Vec<Names>>,
    by_name: ArcSwap<ByName>,
}

/// The series of the rules of a domain as it was compiled, each once it was needed.
#[derive(Debug)]
struct Set {
    number: u64,
    /// The last is that of requests that no rule decided.
    series: Box<[AtomicU32]>,
}

impl Series {
    pub(super) fn new() -> Series {
        let name = |rule: &str| Names { domain: "".into(), rule: rule.into() };
        Series {
            sets: ArcSwap::default(),
            names: Mutex::new(vec![name("other"), name("brought"), name("")]),
            by_name: ArcSwap::default(),
        }
    }

    /// The series of a decision by rules.
    #[inline]
    pub(super) fn of(&self, decision: &Decision) -> u32 {
        match decision.place() {
            Some(place) => {
                let sets = self.sets.load();
                let known = sets.iter().find(|set| set.number == place.set);
                match known.map(|set| set.slot(&place).load(Ordering::Relaxed)) {
                    Some(series) if series != UNKNOWN => series,
                    _ => self.learn(&place, decision),
                }
            }
            None => match (decision.domain(), decision.rule()) {
                (Some(domain), rule) => self.named(domain, rule.unwrap_or_default()),
                _ => NONE,
            },
        }
    }

    #[cold]
    fn learn(&self, place: &RulePlace, decision: &Decision) -> u32 {
        let rule = decision.rule().unwrap_or_default();
        let series = self.named(decision.domain().unwrap_or_default(), rule);
        let find = |sets: &Vec<Arc<Set>>| sets.iter().find(|set| set.number == place.set).cloned();
        let set = find(&self.sets.load()).unwrap_or_else(|| {
            let series = (0..=place.of).map(|_| AtomicU32::new(UNKNOWN)).collect();
            let new = Arc::new(Set { number: place.set, series });
            self.sets.rcu(|sets| {
                // The newest first: it decides from now on.
                let older = sets.iter().filter(|set| set.number != new.number).take(SETS - 1);
                std::iter::once(&new).chain(older).cloned().collect::<Vec<_>>()
            });
            new
        });
        set.slot(place).store(series, Ordering::Relaxed);
        series
    }

    /// The series of these names, which come from rules.
    pub(super) fn named(&self, domain: &str, rule: &str) -> u32 {
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
        if names.len() >= MOST {
            return OTHER;
        }
        let new = Names { domain: domain.into(), rule: rule.into() };
        let series = names.len() as u32;
        let mut all = HashMap::clone(&known);
        all.entry(new.domain.clone()).or_default().insert(new.rule.clone(), series);
        names.push(new);
        self.by_name.store(Arc::new(all));
        series
    }

    /// All names, by their series.
    pub(super) fn names(&self) -> Vec<Names> {
        self.names.lock().clone()
    }
}

impl Set {
    #[inline]
    fn slot(&self, place: &RulePlace) -> &AtomicU32 {
        let last = self.series.len() - 1;
        &self.series[place.rule.map_or(last, |rule| (rule as usize).min(last))]
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Limiter, Request};

    use super::*;

    #[test]
    fn a_rule_keeps_its_series_when_its_file_is_read_again() {
        let series = Series::new();
        let limiter = |text: &str| Limiter::from_rules(text.parse().unwrap());
        let text = "domain: shop\nrules: [{ name: all, limit: 10/s }]";
        let decide = |text| series.of(&limiter(text).decide(&Request::empty().domain("shop")));
        let first = decide(text);
        assert_eq!((first, decide(text)), (3, 3));
        assert_eq!(&*series.names()[3].rule, "all");
        for _ in 0..2 * SETS {
            assert_eq!(decide(text), first);
        }
        assert!(series.sets.load().len() <= SETS);
        let unknown = limiter(text).decide(&Request::empty().domain("chosen-by-a-client"));
        assert_eq!(series.of(&unknown), NONE);
    }

    #[test]
    fn there_are_only_so_many_series() {
        let series = Series::new();
        for rule in 0..2 * MOST {
            series.named("shop", &rule.to_string());
        }
        assert_eq!(series.names().len(), MOST);
        assert_eq!(series.named("shop", "1999"), OTHER);
    }
}
