//! The hosts that asked for a pause, and its end.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct PausedHosts {
    /// The maximum number of hosts.
    most: usize,
    longest_pause: Duration,
    silent_until: Mutex<HashMap<Box<str>, Instant>>,
}

impl PausedHosts {
    pub(super) fn new(most: usize, longest_pause: Duration) -> PausedHosts {
        PausedHosts { most, longest_pause, silent_until: Mutex::default() }
    }

    /// Returns the rest of a host's pause.
    pub(super) fn pause_of(&self, host: &str) -> Duration {
        let mut hosts = self.silent_until.lock();
        let Some(until) = hosts.get(host) else { return Duration::ZERO };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            hosts.remove(host);
        }
        left
    }

    /// Pauses a host. Responses overtake each other, so the longest pause counts.
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
            // The pause that ends first is the smallest loss.
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
    async fn the_longest_pause_counts_and_is_capped() {
        let hosts = PausedHosts::new(10, Duration::from_secs(60));
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
    async fn the_number_of_hosts_is_bounded() {
        let hosts = PausedHosts::new(3, Duration::from_secs(60));
        for (host, seconds) in [("a", 30), ("b", 10), ("c", 20), ("d", 40)] {
            hosts.pause(host, Duration::from_secs(seconds));
        }
        assert_eq!(hosts.silent_until.lock().len(), 3);
        assert_eq!(hosts.pause_of("b"), Duration::ZERO, "the soonest over");
        assert_eq!(hosts.pause_of("d"), Duration::from_secs(40));
    }
}
