//! The end of a temporary ban or mode: after a duration, or at a time.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::RoutesContext;
use crate::problem::{Problem, Result};

/// The requested end: a duration or a time.
#[derive(Debug, Default, Deserialize)]
pub(super) struct EndTime {
    /// The duration, such as `10m` or `1h 30m`.
    #[serde(default, rename = "for")]
    pub(super) lasts: Option<String>,
    /// The time of the end.
    #[serde(default)]
    pub(super) until: Option<String>,
}

pub(super) fn now(context: &RoutesContext) -> Timestamp {
    to_timestamp(context.clock.date(context.clock.now()))
}

/// Converts a date of the limiter's clock.
pub(super) fn to_timestamp(time: tollgate::Time) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(time.as_nanos())).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Parses a stored end; `None` if there is none.
pub(super) fn parse_end(until: &Option<String>) -> Option<Timestamp> {
    until.as_ref()?.parse().ok()
}

/// Returns the remaining milliseconds as JSON, rounded up; null without an end.
pub(super) fn remaining_ms(end: Option<Timestamp>, now: Timestamp) -> Value {
    match end {
        Some(end) => {
            let rest = end.duration_since(now).as_nanos().max(0);
            json!(u64::try_from(rest).unwrap_or(u64::MAX).div_ceil(1_000_000))
        }
        None => Value::Null,
    }
}

impl EndTime {
    /// Returns the end as a time, if one is requested.
    pub(super) fn at(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let end = match (&self.lasts, &self.until) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request("give `for` or `until`, not both"));
            }
            (Some(text), None) => {
                let lasts = text.parse::<SignedDuration>().ok().filter(SignedDuration::is_positive);
                let wrong = || Problem::bad_request("`for` is a time such as 10m or 1h 30m");
                now.checked_add(lasts.ok_or_else(wrong)?)
                    .map_err(|_| Problem::bad_request("`for` is too long"))?
            }
            (None, Some(text)) => {
                let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
                let moment = text.parse::<Timestamp>().ok().or_else(|| Some(date()?.timestamp()));
                moment.ok_or_else(|| {
                    let help = "`until` is a date such as 2027-01-01, or a time such as \
                                2027-01-01T18:00:00Z";
                    Problem::bad_request(help)
                })?
            }
        };
        if end <= now {
            return Err(Problem::bad_request("the end is in the past"));
        }
        Ok(Some(end))
    }
}
