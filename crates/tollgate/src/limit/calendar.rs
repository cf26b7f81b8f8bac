//! Calendar windows: the days, weeks, months and years of a time zone.
//!
//! A period begins with the first instant of its first day. If the clock skips midnight, that is
//! the first instant after the gap; if midnight occurs twice, it is the first one. A day with a
//! clock change has 23 or 25 hours. The zone database is compiled in, so the host needs none.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use tollgate_core::{Calendar, Span, Time};

use super::InvalidLimit;
use super::algorithm::in_range;
use super::keyword::Keyword;
use super::unit::{Period, Unit};

/// Returns the time zone of an IANA name, ignoring case.
pub(super) fn zone(name: &str) -> Result<TimeZone, InvalidLimit> {
    TimeZone::get(name).map_err(|_| InvalidLimit::UnknownTimeZone(name.into()))
}

/// Returns the names of all time zones.
pub(super) fn zone_names() -> impl Iterator<Item = String> {
    jiff::tz::db().available().map(|name| name.as_str().to_owned())
}

/// The calendar periods of one unit in one time zone.
#[derive(Clone, Debug)]
pub(super) struct ZonedCalendar {
    cycle: Cycle,
    zone: TimeZone,
}

/// The unit of a calendar, and the day on which its periods begin.
#[derive(Clone, Copy, Debug)]
enum Cycle {
    Day,
    /// Weeks that begin on the given day.
    Week(Weekday),
    /// Months that begin on the given day, or on their last day if they are shorter.
    Month(i8),
    Year,
}

impl ZonedCalendar {
    /// Creates a calendar whose periods begin on day `anchor`; of a week, 1 is Monday.
    pub(super) fn new(
        period: Period,
        zone_name: &str,
        anchor: u64,
    ) -> Result<ZonedCalendar, InvalidLimit> {
        let days = match period.unit {
            Unit::Day | Unit::Year if period.count == 1 => 1,
            Unit::Week if period.count == 1 => 7,
            Unit::Month if period.count == 1 => 31,
            _ => return Err(InvalidLimit::CalendarPeriod(period)),
        };
        in_range(Keyword::Anchor, anchor, 1, days)?;
        let anchor = anchor as i8;
        let cycle = match period.unit {
            Unit::Day => Cycle::Day,
            Unit::Week => {
                let first = Weekday::from_monday_one_offset(anchor);
                Cycle::Week(first.unwrap_or(Weekday::Monday))
            }
            Unit::Month => Cycle::Month(anchor),
            _ => Cycle::Year,
        };
        Ok(ZonedCalendar { cycle, zone: zone(zone_name)? })
    }

    /// Returns the first day after `day` that begins a period; `None` beyond the year 9999.
    fn next_first_day(&self, day: Date) -> Option<Date> {
        match self.cycle {
            Cycle::Day => day.tomorrow().ok(),
            Cycle::Week(first) => day.nth_weekday(1, first).ok(),
            Cycle::Month(anchor) => {
                let in_month_of = |date: Date| {
                    let day = anchor.min(date.days_in_month());
                    Date::new(date.year(), date.month(), day).ok()
                };
                match in_month_of(day)? {
                    first if first > day => Some(first),
                    _ => in_month_of(day.first_of_month().checked_add(1.month()).ok()?),
                }
            }
            Cycle::Year => Date::new(day.year().checked_add(1)?, 1, 1).ok(),
        }
    }

    /// Returns the end of the period that contains `now`.
    fn end_after(&self, now: Timestamp) -> Option<Timestamp> {
        let mut day = self.zone.to_datetime(now).date();
        loop {
            day = self.next_first_day(day)?;
            let start = day.to_zoned(self.zone.clone()).ok()?.timestamp();
            // If the clock was set back over midnight, the next day has already begun once.
            if start > now {
                return Some(start);
            }
        }
    }
}

impl Calendar for ZonedCalendar {
    fn period_end(&self, now: Time) -> Time {
        let end = Timestamp::from_nanosecond(i128::from(now.as_nanos()))
            .ok()
            .and_then(|now| self.end_after(now))
            .and_then(|end| u64::try_from(end.as_nanosecond()).ok());
        end.map_or(Time::MAX, Time::from_nanos)
    }

    fn longest(&self) -> Span {
        let days = match self.cycle {
            Cycle::Day => 1,
            Cycle::Week(_) => 7,
            Cycle::Month(_) => 31,
            Cycle::Year => 366,
        };
        Unit::Day.span().times(days) + MAX_SET_BACK
    }
}

/// The most that the clock of any zone was set back at once since 2000 (Casey, 2010).
const MAX_SET_BACK: Span = Span::from_secs(3 * 3_600);

#[cfg(test)]
mod tests;
