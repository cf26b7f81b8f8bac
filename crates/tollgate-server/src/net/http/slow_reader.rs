//! Tells a client that reads slowly from one that does not read, on a connection whose writes block.

use std::time::Duration;

use crate::clock;

/// The least number of bytes that a client must take within the stall timeout.
///
/// The amount is the size of the pieces in which a client of HTTP/2 gets a response, so that the same rate is
/// required of every client.
const LEAST_BYTES: u64 = 16 << 10;

/// The progress of a client while the writes to it block.
#[derive(Debug, Default)]
pub(super) struct SlowReader {
    /// The number of bytes that were written when progress was last checked.
    checked_bytes: u64,
    /// The start of the current period, in monotonic milliseconds, and the bytes written before it.
    period_ms: u64,
    period_bytes: u64,
}

impl SlowReader {
    /// Starts to follow a client to which so many bytes were written.
    pub(super) fn new(written_bytes: u64) -> SlowReader {
        let period_ms = clock::monotonic_ms();
        SlowReader { checked_bytes: written_bytes, period_ms, period_bytes: written_bytes }
    }

    /// Returns whether the client took nothing since the last check, or too little since the start of
    /// a period of `stall_timeout`.
    pub(super) fn has_stalled(&mut self, written_bytes: u64, stall_timeout: Duration) -> bool {
        self.has_stalled_at(clock::monotonic_ms(), written_bytes, stall_timeout)
    }

    fn has_stalled_at(&mut self, now_ms: u64, written_bytes: u64, stall_timeout: Duration) -> bool {
        if written_bytes == self.checked_bytes {
            return true;
        }
        self.checked_bytes = written_bytes;
        if written_bytes - self.period_bytes >= LEAST_BYTES {
            (self.period_ms, self.period_bytes) = (now_ms, written_bytes);
        }
        u128::from(now_ms - self.period_ms) >= stall_timeout.as_millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    #[test]
    fn a_client_that_reads_steadily_is_not_cut_off() {
        let mut reader = SlowReader { checked_bytes: 9, period_ms: 1_000, period_bytes: 9 };
        for second in 1..1_000 {
            let (now_ms, written) = (1_000 + 10_000 * second, 9 + 6_000 * second);
            assert!(!reader.has_stalled_at(now_ms, written, STALL), "{second}");
        }
    }

    #[test]
    fn a_client_that_takes_nothing_or_next_to_nothing_has_stalled() {
        let mut nothing = SlowReader::default();
        assert!(nothing.has_stalled_at(10_000, 0, STALL));
        let mut little = SlowReader::default();
        let stalled: Vec<_> =
            (1..5).map(|second| little.has_stalled_at(10_000 * second, second, STALL)).collect();
        assert_eq!(stalled, [false, false, true, true]);
    }
}
