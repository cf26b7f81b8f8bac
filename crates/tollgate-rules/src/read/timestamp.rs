//! Timestamps in rules: a date, or a date and a time.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// The help text for a text that is no timestamp.
pub(crate) const TIMESTAMP_HELP: &str =
    "write a date such as 2027-01-01, or a time such as 2027-01-01T18:00:00Z";

/// Parses a timestamp and returns it in nanoseconds since 1970.
///
/// A date is its first instant. A text without an offset is in `zone`.
pub(crate) fn parse_timestamp(text: &str, zone: &TimeZone) -> Option<u64> {
    let here = |civil: DateTime| civil.to_zoned(zone.clone()).ok().map(|zoned| zoned.timestamp());
    let instant = match text.parse::<Timestamp>() {
        Ok(instant) => Some(instant),
        Err(_) if text.len() == "2027-01-01".len() => {
            text.parse::<Date>().ok().and_then(|date| here(date.at(0, 0, 0, 0)))
        }
        Err(_) => text.parse::<DateTime>().ok().and_then(here),
    };
    u64::try_from(instant?.as_nanosecond()).ok()
}
