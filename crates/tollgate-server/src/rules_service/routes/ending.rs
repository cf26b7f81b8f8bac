//! When something that is set for a time ends: so long from now, or at a moment.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Context;
use crate::rules_service::problem::{Problem, Result};

/// How long something lasts, as it is asked for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Ending {
    /// How long: `10m`, `1h 30m`.
    #[serde(default, rename = "for")]
    pub(super) lasts: Option<String>,
    /// Or until when.
    #[serde(default)]
    pub(super) until: Option<String>,
}

pub(super) fn now(context: &Context) -> Timestamp {
    moment(context.clock.now())
}

/// A time of the engine's.
pub(super) fn moment(time: tollgate::Time) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(time.as_nanos())).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The end of something that is kept; none if it lasts for good.
pub(super) fn end_of(until: &Option<String>) -> Option<Timestamp> {
    until.as_ref()?.parse().ok()
}

/// What is left until a moment, in milliseconds, rounded up; null if there is none.
pub(super) fn rest_ms(end: Option<Timestamp>, now: Timestamp) -> Value {
    match end {
        Some(end) => {
            let rest = end.duration_since(now).as_nanos().max(0);
            json!(u64::try_from(rest).unwrap_or(u64::MAX).div_ceil(1_000_000))
        }
        None => Value::Null,
    }
}

impl Ending {
    /// The moment, if there is one.
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
                    .map_err(|_| Problem::bad_request("`for` is longer than time itself"))?
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
            return Err(Problem::bad_request("this would be over already"));
        }
        Ok(Some(end))
    }
}
