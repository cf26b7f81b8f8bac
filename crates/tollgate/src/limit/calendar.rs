//! Days, weeks, months and years of a time zone, for windows that end when people expect it.
//!
//! A period begins with the first instant of its first day. Where the clock skips midnight that
//! is an hour later, where it passes midnight twice it is the first time; a day is 23 or 25
//! hours long when the clocks change. The zones are compiled in: no host needs a database.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use tollgate_core::{Calendar, Span, Time};

use super::InvalidLimit;
use super::engine::in_range;
use super::unit::{Period, Unit};
use super::words::Word;

/// The zone of that IANA name, in either case.
pub(super) fn zone(name: &str) -> Result<TimeZone, InvalidLimit> {
    TimeZone::get(name).map_err(|_| InvalidLimit::UnknownTimeZone(name.into()))
}

/// The names of all zones.
pub(super) fn zone_names() -> impl Iterator<Item = String> {
    jiff::tz::db().available().map(|name| name.as_str().to_owned())
}

/// The periods of one unit in one time zone.
#[derive(Clone, Debug)]
pub(super) struct ZonedCalendar {
    cycle: Cycle,
    zone: TimeZone,
}

#[derive(Clone, Copy, Debug)]
enum Cycle {
    Day,
    /// Begins on that day of the week.
    Week(Weekday),
    /// Begins on that day of the month, or its last if it has fewer.
    Month(i8),
    Year,
}

impl ZonedCalendar {
    /// Periods of one `period`, which begins on its day `anchor`: of a week 1 is Monday.
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
        in_range(Word::Anchor, anchor, 1, days)?;
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

    /// The first day, after `day`, of a period; `None` beyond the year 9999.
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

    fn end_after(&self, now: Timestamp) -> Option<Timestamp> {
        let mut day = self.zone.to_datetime(now).date();
        loop {
            day = self.next_first_day(day)?;
            let start = day.to_zoned(self.zone.clone()).ok()?.timestamp();
            // Not after now where the clock was set back over midnight: that day has begun.
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
        Unit::Day.span().times(days) + MOST_SET_BACK
    }
}

/// By how much, at most, the clocks of any zone since 2000 were set back at once (Casey, 2010).
const MOST_SET_BACK: Span = Span::from_secs(3 * 3_600);

#[cfg(test)]
mod tests;
