//! The one place of this crate that reads the wall clock: for people who read the audit, never for
//! a decision.
#![allow(clippy::disallowed_methods, reason = "this module owns the wall clock of this crate")]

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> i64 {
    now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
