//! The one place of this crate that reads clocks: for people who read the audit and for
//! housekeeping, never for a decision.
#![allow(clippy::disallowed_methods, reason = "this module owns the clocks of this crate")]

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> i64 {
    now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    u64::try_from(unix_ms() / 1000).unwrap_or(0)
}

/// Milliseconds since some moment of this process; never goes back.
pub(crate) fn monotonic_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as u64
}
