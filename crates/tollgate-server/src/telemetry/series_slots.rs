//! The series of rules by their location, so that a decision finds its series without a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use tollgate_rules::RuleLocation;

/// The maximum number of rule sets with a table; older ones are looked up by name.
const SETS: usize = 64;
const UNKNOWN: u32 = u32::MAX;

/// The series of the rules of the latest rule sets, filled on first use.
#[derive(Debug, Default)]
pub(super) struct SeriesSlots(ArcSwap<Vec<Arc<RuleSetSeries>>>);

/// The series of one rule set.
#[derive(Debug)]
struct RuleSetSeries {
    number: u64,
    /// One series per rule; the last is for requests that no rule decided.
    series: Box<[AtomicU32]>,
}

impl SeriesSlots {
    /// Returns the series of a rule; `find` finds it on first use.
    #[inline]
    pub(super) fn get_or_assign(&self, place: &RuleLocation, find: impl FnOnce() -> u32) -> u32 {
        let sets = self.0.load();
        let known = sets.iter().find(|set| set.number == place.set);
        match known.map(|set| set.slot(place).load(Ordering::Relaxed)) {
            Some(series) if series != UNKNOWN => series,
            _ => {
                let series = find();
                self.assign(place, series);
                series
            }
        }
    }

    #[cold]
    fn assign(&self, place: &RuleLocation, series: u32) {
        let find = |sets: &Vec<Arc<RuleSetSeries>>| {
            sets.iter().find(|set| set.number == place.set).cloned()
        };
        let set = find(&self.0.load()).unwrap_or_else(|| {
            let series = (0..=place.of).map(|_| AtomicU32::new(UNKNOWN)).collect();
            let new = Arc::new(RuleSetSeries { number: place.set, series });
            self.0.rcu(|sets| {
                // The newest set comes first, because it makes most decisions from now on.
                let older = sets.iter().filter(|set| set.number != new.number).take(SETS - 1);
                std::iter::once(&new).chain(older).cloned().collect::<Vec<_>>()
            });
            new
        });
        set.slot(place).store(series, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn set_count(&self) -> usize {
        self.0.load().len()
    }
}

impl RuleSetSeries {
    #[inline]
    fn slot(&self, place: &RuleLocation) -> &AtomicU32 {
        let last = self.series.len() - 1;
        &self.series[place.rule.map_or(last, |rule| (rule as usize).min(last))]
    }
}
