//! Who is noisy: the keys with the most requests, the most refusals and the fastest growth, found
//! in bounded memory.
//!
//! A sketch of frequent items (Anderson and others, 2017, after Misra and Gries): counters for at
//! most so many keys; when there are more, what the median has is taken off all of them and those
//! left with nothing go. What is counted is never more than the truth, and less by at most what was
//! taken off. The crate `datasketches` has the same algorithm on a table with a hash function that
//! everybody knows, and keys here are chosen by clients, who could make it search for long.

use std::collections::{HashMap, VecDeque};

use super::event::Event;

/// Decisions that are remembered for who asks what happened lately.
const RECENT: usize = 64;

/// Keys and how often each was seen.
#[derive(Debug)]
pub(super) struct Sketch {
    counts: HashMap<Box<[u8]>, u64>,
    most: usize,
    /// What was taken off everybody.
    taken: u64,
}

impl Sketch {
    fn new(most: usize) -> Sketch {
        Sketch { counts: HashMap::new(), most: most.max(1), taken: 0 }
    }

    fn add(&mut self, key: &[u8], weight: u64) {
        if let Some(count) = self.counts.get_mut(key) {
            *count = count.saturating_add(weight);
            return;
        }
        self.counts.insert(key.into(), weight);
        if self.counts.len() > self.most {
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
        self.taken += median;
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.taken = 0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.counts.iter().map(|(key, count)| (&**key, *count))
    }
}

/// One minute.
#[derive(Debug)]
pub(super) struct Minute {
    pub(super) requests: Sketch,
    pub(super) denied: Sketch,
}

impl Minute {
    fn new(most: usize) -> Minute {
        Minute { requests: Sketch::new(most), denied: Sketch::new(most) }
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.denied.clear();
    }

    /// By how much its counts may be less than the truth.
    pub(super) fn error(&self) -> u64 {
        self.requests.taken.max(self.denied.taken)
    }
}

/// What one stripe has noticed: this minute, the one before, and the last few decisions.
#[derive(Debug)]
pub(super) struct Noisy {
    minute: u64,
    pub(super) current: Minute,
    pub(super) previous: Minute,
    recent: VecDeque<Event>,
}

impl Noisy {
    pub(super) fn new(most: usize) -> Noisy {
        let (current, previous) = (Minute::new(most), Minute::new(most));
        Noisy { minute: 0, current, previous, recent: VecDeque::new() }
    }

    /// A decision that stands for `weight` like it.
    pub(super) fn note(&mut self, minute: u64, weight: u64, event: Event) {
        self.turn_to(minute);
        self.current.requests.add(event.subject.as_bytes(), weight);
        if event.outcome.is_refusal() {
            self.current.denied.add(event.subject.as_bytes(), weight);
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(event);
    }

    /// Forgets what is older than the minute before this one.
    pub(super) fn turn_to(&mut self, minute: u64) {
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

    pub(super) fn recent(&self) -> impl Iterator<Item = &Event> {
        self.recent.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million requests of which a few keys have much, the rest little: the few are found.
    #[test]
    fn the_heavy_are_found_among_many() {
        let mut sketch = Sketch::new(256);
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
            assert!(count <= truth && count + sketch.taken >= *truth, "{count} of {truth}");
        }
    }

    #[test]
    fn a_minute_is_forgotten_after_the_next() {
        let mut noisy = Noisy::new(8);
        noisy.current.requests.add(b"ann", 3);
        noisy.turn_to(1);
        assert_eq!(noisy.previous.requests.iter().collect::<Vec<_>>(), [(&b"ann"[..], 3)]);
        noisy.turn_to(2);
        assert_eq!(noisy.previous.requests.iter().count(), 0);
        noisy.current.requests.add(b"bob", 1);
        noisy.turn_to(7);
        assert_eq!(noisy.previous.requests.iter().count(), 0);
    }
}
