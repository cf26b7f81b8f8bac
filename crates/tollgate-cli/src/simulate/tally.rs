//! The counts of one run of a trace.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::simulation::EventVerdict;
use super::timeline::{Counts, Timeline};
use super::trace_event::TraceEvent;

/// The counts of a run, in total and for each key.
#[derive(Debug)]
pub(super) struct TraceTally {
    pub(super) total: Counts,
    /// The number of peeks, refunds, settlements and resets.
    pub(super) others: u64,
    pub(super) keys: HashMap<String, KeyTally>,
    pub(super) timeline: Timeline,
    /// The window of the peak, if it is measured.
    window_us: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct KeyTally {
    pub(super) counts: Counts,
    /// The denials since the last allowed request, and the longest run of denials.
    run: u64,
    longest_run: u64,
    peak: Peak,
}

impl TraceTally {
    pub(super) fn new(window_us: Option<u64>) -> TraceTally {
        let (keys, timeline) = (HashMap::new(), Timeline::new());
        TraceTally { total: Counts::default(), others: 0, keys, timeline, window_us }
    }

    /// Counts one event and its verdict.
    pub(super) fn record(&mut self, event: &TraceEvent, answer: &EventVerdict) {
        if !event.op.can_be_denied() {
            self.others += 1;
            return;
        }
        if !self.keys.contains_key(&event.key) {
            self.keys.insert(event.key.clone(), KeyTally::default());
        }
        let Some(key) = self.keys.get_mut(&event.key) else { return };
        // A delayed request passes at the end of its delay.
        let passes_us = event.at_us.saturating_add(answer.wait_us);
        if let Some(window_us) = self.window_us {
            key.peak.advance(event.at_us, window_us);
        }
        if answer.allowed {
            self.total.allowed += 1;
            key.counts.allowed += 1;
            key.run = 0;
            self.timeline.record(passes_us, true);
            if self.window_us.is_some() {
                key.peak.admit(passes_us, event.cost);
            }
        } else {
            self.total.denied += 1;
            key.counts.denied += 1;
            key.run += 1;
            key.longest_run = key.longest_run.max(key.run);
            self.timeline.record(event.at_us, false);
        }
    }

    /// Returns the longest run of denials of any key.
    pub(super) fn longest_run(&self) -> u64 {
        self.keys.values().map(|key| key.longest_run).max().unwrap_or(0)
    }

    /// Returns the maximum cost that passed for any key in any window.
    pub(super) fn peak(&mut self) -> u64 {
        let Some(window_us) = self.window_us else { return 0 };
        self.keys.values_mut().map(|key| key.peak.finish(window_us)).max().unwrap_or(0)
    }

    /// Returns the keys with the most denials, at most `most` of them.
    pub(super) fn most_denied(&self, most: usize) -> Vec<(&str, Counts)> {
        let denied = self.keys.iter().filter(|(_, key)| key.counts.denied > 0);
        let mut denied: Vec<_> = denied.map(|(key, tally)| (key.as_str(), tally.counts)).collect();
        denied.sort_by_key(|(key, counts)| (std::cmp::Reverse(counts.denied), *key));
        denied.truncate(most);
        denied
    }
}

/// The maximum cost in any window, measured with a sliding window of the admissions in memory.
#[derive(Debug, Default)]
struct Peak {
    /// Admissions that pass later.
    ahead: BTreeMap<u64, u64>,
    window: VecDeque<(u64, u64)>,
    sum: u64,
    most: u64,
}

impl Peak {
    fn admit(&mut self, at_us: u64, cost: u64) {
        let ahead = self.ahead.entry(at_us).or_default();
        *ahead = ahead.saturating_add(cost);
    }

    /// Slides the window over everything that passed before `now_us`.
    fn advance(&mut self, now_us: u64, window_us: u64) {
        while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() < now_us) {
            let (at_us, cost) = entry.remove_entry();
            self.slide(at_us, cost, window_us);
        }
    }

    fn slide(&mut self, at_us: u64, cost: u64, window_us: u64) {
        self.window.push_back((at_us, cost));
        self.sum = self.sum.saturating_add(cost);
        // A window excludes the instant at which the next one begins.
        while let Some((first_us, cost)) = self.window.front().copied() {
            if at_us < first_us.saturating_add(window_us) {
                break;
            }
            self.window.pop_front();
            self.sum = self.sum.saturating_sub(cost);
        }
        self.most = self.most.max(self.sum);
    }

    fn finish(&mut self, window_us: u64) -> u64 {
        while let Some((at_us, cost)) = self.ahead.pop_first() {
            self.slide(at_us, cost, window_us);
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_found_wherever_the_window_begins() {
        let mut peak = Peak::default();
        for (at_us, cost) in [(0, 3), (90, 5), (100, 4), (190, 1), (400, 8)] {
            peak.advance(at_us, 100);
            peak.admit(at_us, cost);
        }
        assert_eq!(peak.finish(100), 9); // 90 and 100; 190 is a window away from 90
    }

    #[test]
    fn a_delayed_request_counts_when_it_passes() {
        let mut peak = Peak::default();
        for at_us in [300, 0, 200, 100] {
            peak.advance(0, 100);
            peak.admit(at_us, 1);
        }
        assert_eq!(peak.finish(100), 1);
    }
}
