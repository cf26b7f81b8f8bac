//! The only module of this crate that reads the system clocks.
//!
//! The times are for the audit log and for housekeeping, never for a decision.
#![allow(clippy::disallowed_methods, reason = "this module owns the clocks of this crate")]

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the milliseconds since 1970.
pub(crate) fn unix_ms() -> i64 {
    now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Returns the seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    u64::try_from(unix_ms() / 1000).unwrap_or(0)
}

/// Returns the milliseconds since an arbitrary moment of this process; never decreases.
pub(crate) fn monotonic_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as u64
}
