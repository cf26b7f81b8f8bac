//! What time it is at a server, as far as its answers tell.
//!
//! An answer that says `server` arrived between `sent` and `received` on our clock: then the
//! server's clock was ahead of ours by at most `server - sent` and by at least
//! `server - received`. Every answer narrows that down; one that contradicts what was known, as
//! when a clock was set, or another server took over, starts anew.

use std::sync::atomic::{AtomicI64, Ordering};

use tollgate::Time;

/// Bounds of what a server's clock shows.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// Nanoseconds that the server's clock is ahead of ours: at most so many.
    most: AtomicI64,
    /// At least so many.
    least: AtomicI64,
}

impl Default for ServerClock {
    fn default() -> ServerClock {
        ServerClock { most: AtomicI64::new(UNKNOWN), least: AtomicI64::new(-UNKNOWN) }
    }
}

const UNKNOWN: i64 = i64::MAX;

fn ahead(server: Time, ours: Time) -> i64 {
    let ahead = i128::from(server.as_nanos()) - i128::from(ours.as_nanos());
    ahead.clamp(i128::from(i64::MIN + 1), i128::from(i64::MAX - 1)) as i64
}

impl ServerClock {
    /// Learns from an answer.
    pub(crate) fn observe(&self, sent: Time, server: Time, received: Time) {
        let (most, least) = (ahead(server, sent), ahead(server, received));
        let (known_most, known_least) =
            (self.most.load(Ordering::Relaxed), self.least.load(Ordering::Relaxed));
        let agrees = least <= known_most && known_least <= most;
        let (most, least) = match agrees {
            true => (most.min(known_most), least.max(known_least)),
            false => (most, least),
        };
        self.most.store(most, Ordering::Relaxed);
        self.least.store(least, Ordering::Relaxed);
    }

    /// The latest it can be at the server when it is `ours` here; none if nothing is known.
    pub(crate) fn latest(&self, ours: Time) -> Option<Time> {
        match self.most.load(Ordering::Relaxed) {
            UNKNOWN => None,
            most => Some(shifted(ours, most)),
        }
    }
}

fn shifted(ours: Time, by: i64) -> Time {
    Time::from_nanos(ours.as_nanos().saturating_add_signed(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn every_answer_narrows_it_down() {
        let clock = ServerClock::default();
        assert_eq!(clock.latest(at(0)), None);
        clock.observe(at(1_000), at(5_500), at(2_000));
        assert_eq!(clock.latest(at(1_000)), Some(at(5_500)));
        clock.observe(at(3_000), at(7_200), at(3_400));
        assert_eq!(clock.latest(at(3_000)), Some(at(7_200)));
        clock.observe(at(4_000), at(8_900), at(5_000));
        assert_eq!(clock.latest(at(4_000)), Some(at(8_200)));
    }

    #[test]
    fn a_clock_that_was_set_is_learned_anew() {
        let clock = ServerClock::default();
        clock.observe(at(1_000), at(5_000), at(1_100));
        clock.observe(at(2_000), at(9_000), at(2_100));
        assert_eq!(clock.latest(at(2_000)), Some(at(9_000)));
        clock.observe(at(3_000), at(4_000), at(3_100));
        assert_eq!(clock.latest(at(3_000)), Some(at(4_000)));
    }
}
