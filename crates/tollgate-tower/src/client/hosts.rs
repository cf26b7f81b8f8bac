//! Until when each host wants to be left alone.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Hosts {
    /// The most that are remembered.
    most: usize,
    longest_pause: Duration,
    silent_until: Mutex<HashMap<Box<str>, Instant>>,
}

impl Hosts {
    pub(super) fn new(most: usize, longest_pause: Duration) -> Hosts {
        Hosts { most, longest_pause, silent_until: Mutex::default() }
    }

    /// How long a host still wants to be left alone.
    pub(super) fn pause_of(&self, host: &str) -> Duration {
        let mut hosts = self.silent_until.lock();
        let Some(until) = hosts.get(host) else { return Duration::ZERO };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            hosts.remove(host);
        }
        left
    }

    /// A host wants to be left alone. Answers overtake each other: the longest word counts.
    pub(super) fn pause(&self, host: &str, pause: Duration) {
        let now = Instant::now();
        let until = now + pause.min(self.longest_pause);
        let mut hosts = self.silent_until.lock();
        if let Some(known) = hosts.get_mut(host) {
            *known = until.max(*known);
            return;
        }
        if hosts.len() >= self.most {
            hosts.retain(|_, until| *until > now);
        }
        if hosts.len() >= self.most {
            // Of those that are left, the one that is soonest over is the least loss.
            let soonest = hosts.iter().min_by_key(|(_, until)| **until);
            if let Some(host) = soonest.map(|(host, _)| host.clone()) {
                hosts.remove(&host);
            }
        }
        hosts.insert(host.into(), until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_word_counts_and_is_capped() {
        let hosts = Hosts::new(10, Duration::from_secs(60));
        hosts.pause("a", Duration::from_secs(10));
        hosts.pause("a", Duration::from_secs(5));
        assert_eq!(hosts.pause_of("a"), Duration::from_secs(10));
        assert_eq!(hosts.pause_of("b"), Duration::ZERO);
        hosts.pause("a", Duration::MAX);
        assert_eq!(hosts.pause_of("a"), Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(hosts.pause_of("a"), Duration::ZERO);
        assert!(hosts.silent_until.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let hosts = Hosts::new(3, Duration::from_secs(60));
        for (host, seconds) in [("a", 30), ("b", 10), ("c", 20), ("d", 40)] {
            hosts.pause(host, Duration::from_secs(seconds));
        }
        assert_eq!(hosts.silent_until.lock().len(), 3);
        assert_eq!(hosts.pause_of("b"), Duration::ZERO, "the soonest over");
        assert_eq!(hosts.pause_of("d"), Duration::from_secs(40));
    }
}
