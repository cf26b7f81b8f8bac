//! Estimates the clock of a server from its replies.
//!
//! A reply that carries the time `server` was sent at `sent` and received at `received` by the
//! local clock. So the server's clock was ahead by at most `server - sent` and at least `server -
//! received`. Every reply narrows these bounds. A reply that contradicts them, because a clock was
//! set or another server took over, replaces them.

use std::sync::atomic::{AtomicI64, Ordering};

use tollgate::Time;

/// The bounds of a server's clock, relative to the local clock.
#[derive(Debug)]
pub(crate) struct ServerClock {
    /// The maximum by which the server's clock is ahead, in nanoseconds.
    most: AtomicI64,
    /// The minimum by which it is ahead, in nanoseconds.
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
    /// Narrows the bounds by the times of a reply.
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

    /// Returns the latest possible time at the server when the local clock shows `ours`; `None` if
    /// it is unknown.
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
    fn every_reply_narrows_the_bounds() {
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
