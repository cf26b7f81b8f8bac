//! Heavy hitters: the keys with the most requests and refusals, found in bounded memory.
//!
//! The algorithm is a sketch of frequent items (Anderson and others, 2017, after Misra and Gries)
//! with a maximum number of counters. When a key is added beyond it, the median is subtracted from
//! all counters and those at 0 are dropped. A count is never more than the truth, and less by at
//! most the sum of the subtracted medians. The crate `datasketches` has this algorithm with a
//! fixed hash function. Here clients choose the keys and could provoke collisions, so that a
//! keyed hash is needed.

use std::collections::{HashMap, VecDeque};

use super::event::DecisionEvent;

/// The number of recent decisions that each stripe remembers.
const RECENT: usize = 64;

/// An approximate count of each frequent key.
#[derive(Debug)]
pub(super) struct FrequencySketch {
    counts: HashMap<Box<[u8]>, u64>,
    max_keys: usize,
    /// The sum of the subtracted medians.
    subtracted: u64,
}

impl FrequencySketch {
    fn new(max_keys: usize) -> FrequencySketch {
        FrequencySketch { counts: HashMap::new(), max_keys: max_keys.max(1), subtracted: 0 }
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        if let Some(count) = self.counts.get_mut(key) {
            *count = count.saturating_add(weight);
            return;
        }
        self.counts.insert(key.into(), weight);
        if self.counts.len() > self.max_keys {
            self.purge();
        }
    }

    #[cold]
    fn purge(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let middle = counts.len() / 2;
        let median = *counts.select_nth_unstable(middle).1;
        self.counts.retain(|_, count| {
            *count = count.saturating_sub(median);
            *count > 0
        });
        self.subtracted += median;
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.subtracted = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.counts.iter().map(|(key, count)| (&**key, *count))
    }
}

/// The requests and refusals of one minute.
#[derive(Debug)]
pub(super) struct MinuteSketches {
    pub(super) requests: FrequencySketch,
    pub(super) denied: FrequencySketch,
}

impl MinuteSketches {
    fn new(max_keys: usize) -> MinuteSketches {
        MinuteSketches {
            requests: FrequencySketch::new(max_keys),
            denied: FrequencySketch::new(max_keys),
        }
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.denied.clear();
    }

    /// Returns the maximum by which a count can be below the truth.
    pub(super) fn error(&self) -> u64 {
        self.requests.subtracted.max(self.denied.subtracted)
    }
}

/// The heavy hitters of one stripe in this minute and the previous one, and its recent decisions.
#[derive(Debug)]
pub(super) struct HeavyHitters {
    minute: u64,
    pub(super) current: MinuteSketches,
    pub(super) previous: MinuteSketches,
    recent: VecDeque<DecisionEvent>,
}

impl HeavyHitters {
    pub(super) fn new(max_keys: usize) -> HeavyHitters {
        let (current, previous) = (MinuteSketches::new(max_keys), MinuteSketches::new(max_keys));
        HeavyHitters { minute: 0, current, previous, recent: VecDeque::new() }
    }

    /// Records a sampled decision that represents `weight` decisions.
    pub(super) fn record(&mut self, minute: u64, weight: u64, event: DecisionEvent) {
        self.advance_to(minute);
        self.current.requests.add(event.key.as_bytes(), weight);
        if event.outcome.is_refusal() {
            self.current.denied.add(event.key.as_bytes(), weight);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(event);
    }

    /// Moves to a minute and drops everything older than the minute before it.
    pub(super) fn advance_to(&mut self, minute: u64) {
        if minute == self.minute {
            return;
        }
        std::mem::swap(&mut self.current, &mut self.previous);
        self.current.clear();
        if minute != self.minute + 1 {
            self.previous.clear();
        }
        self.minute = minute;
    }

    pub(super) fn recent(&self) -> impl Iterator<Item = &DecisionEvent> {
        self.recent.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five keys have one percent of the requests each; the rest is spread over 100,000 keys.
    #[test]
    fn frequent_keys_are_found_among_many() {
        let mut sketch = FrequencySketch::new(256);
        let mut random = fastrand::Rng::with_seed(7);
        let mut truth = [0_u64; 5];
        for _ in 0..300_000 {
            let number = match random.u32(..100) {
                share @ 0..5 => share as usize,
                _ => random.usize(5..100_000),
            };
            if let Some(count) = truth.get_mut(number) {
                *count += 1;
            }
            sketch.add(format!("key {number}").as_bytes(), 1);
        }
        assert!(sketch.counts.len() <= 256);
        let mut top: Vec<(&[u8], u64)> = sketch.iter().collect();
        top.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (number, truth) in truth.iter().enumerate() {
            let name = format!("key {number}");
            let found = top[..5].iter().find(|(key, _)| *key == name.as_bytes());
            let (_, count) = found.unwrap_or_else(|| panic!("{name} is missing"));
            assert!(count <= truth && count + sketch.subtracted >= *truth, "{count} of {truth}");
        }
    }

    #[test]
    fn a_minute_is_dropped_after_the_next() {
        let mut heavy_hitters = HeavyHitters::new(8);
        heavy_hitters.current.requests.add(b"ann", 3);
        heavy_hitters.advance_to(1);
        assert_eq!(heavy_hitters.previous.requests.iter().collect::<Vec<_>>(), [(&b"ann"[..], 3)]);
        heavy_hitters.advance_to(2);
        assert_eq!(heavy_hitters.previous.requests.iter().count(), 0);
        heavy_hitters.current.requests.add(b"bob", 1);
        heavy_hitters.advance_to(7);
        assert_eq!(heavy_hitters.previous.requests.iter().count(), 0);
    }
}
