//! The time between snapshots.

use std::time::Duration;

/// The pause after a snapshot, as a multiple of the time it took: a tenth of the time is for writing.
const PAUSE_FACTOR: u32 = 9;

/// Returns how long to wait after a snapshot that took `took`.
///
/// Snapshots start an interval apart. Large ones start less often, so that they use neither a whole
/// core nor all of the disk.
pub(super) fn pause_after(took: Duration, interval: Duration) -> Duration {
    interval.saturating_sub(took).max(took * PAUSE_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_snapshots_are_written_less_often() {
        let pause = |took_ms, interval_ms| {
            pause_after(Duration::from_millis(took_ms), Duration::from_millis(interval_ms))
                .as_millis()
        };
        assert_eq!(pause(0, 1000), 1000);
        assert_eq!(pause(20, 1000), 980);
        assert_eq!(pause(100, 1000), 900);
        assert_eq!(pause(500, 1000), 4500);
        assert_eq!(pause(500, 0), 4500);
    }
}
