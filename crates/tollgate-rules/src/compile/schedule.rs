//! The times at which a rule is in force: `during: mon-fri 09:00-17:00 zone Europe/Berlin`.
//!
//! A span is days, hours, or both; several are separated by `;`. Hours that end before they begin
//! go on past midnight and belong to the day they began on: `fri 22:00-06:00` ends on Saturday.
//! Times are local times of the zone, so a night in which clocks change is an hour longer or shorter. The zone is the file's, or UTC, unless a span names one.

mod parse;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tollgate_core::Time;

use crate::read::fault::Fault;

/// A schedule: days and hours in a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    spans: Vec<ScheduleSpan>,
}

/// Days and hours of a week.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScheduleSpan {
    days: Days,
    hours: Hours,
    zone: Option<TimeZone>,
}

/// A set of days of the week: bit 0 is Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Days(u8);

impl Days {
    const ALL: Days = Days(0b111_1111);

    fn has(self, day: i8) -> bool {
        self.0 >> day & 1 == 1
    }
}

/// Minutes of a day, from the first to before the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hours {
    from: u16,
    to: u16,
}

impl Hours {
    const ALL: Hours = Hours { from: 0, to: 24 * 60 };
}

impl Schedule {
    pub(crate) fn parse(text: &str) -> Result<Schedule, Fault> {
        Ok(Schedule { spans: parse::spans(text)? })
    }

    /// Sets the time zone of spans that name none; `zone` is an IANA name that exists.
    pub(crate) fn in_zone(mut self, zone: Option<&str>) -> Schedule {
        let zone = zone.and_then(|name| TimeZone::get(name).ok());
        for span in &mut self.spans {
            span.zone = span.zone.take().or_else(|| zone.clone());
        }
        self
    }

    pub(crate) fn covers(&self, now: Time) -> bool {
        let now = Timestamp::from_nanosecond(i128::from(now.as_nanos()));
        // A time that is no timestamp is centuries away, and in no schedule.
        now.is_ok_and(|now| self.spans.iter().any(|span| span.covers(now)))
    }
}

impl ScheduleSpan {
    fn covers(&self, now: Timestamp) -> bool {
        let local = self.zone.as_ref().unwrap_or(&TimeZone::UTC).to_datetime(now);
        let today = local.weekday().to_monday_zero_offset();
        let yesterday = (today + 6) % 7;
        let minute = local.hour() as u16 * 60 + local.minute() as u16;
        let Hours { from, to } = self.hours;
        if from < to {
            return self.days.has(today) && (from..to).contains(&minute);
        }
        self.days.has(today) && minute >= from || self.days.has(yesterday) && minute < to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(schedule: &str, at: &str) -> bool {
        let at: Timestamp = at.parse().unwrap();
        let at = Time::from_nanos(at.as_nanosecond() as u64);
        Schedule::parse(schedule).unwrap().covers(at)
    }

    /// 2026-03-23 is a Monday.
    #[test]
    fn a_schedule_covers_its_days_and_hours() {
        for (schedule, at, expected) in [
            ("09:00-17:00", "2026-03-23T09:00:00Z", true),
            ("09:00-17:00", "2026-03-23T16:59:59.999Z", true),
            ("09:00-17:00", "2026-03-23T17:00:00Z", false),
            ("22:00-06:00", "2026-03-23T23:00:00Z", true),
            ("22:00-06:00", "2026-03-23T05:59:59Z", true),
            ("22:00-06:00", "2026-03-23T06:00:00Z", false),
            ("sat,sun", "2026-03-22T12:00:00Z", true),
            ("sat,sun", "2026-03-23T00:00:00Z", false),
            ("mon-fri 09:00-17:00", "2026-03-27T10:00:00Z", true),
            ("mon-fri 09:00-17:00", "2026-03-28T10:00:00Z", false),
            ("fri-mon", "2026-03-23T10:00:00Z", true),
            ("fri-mon", "2026-03-24T10:00:00Z", false),
            ("fri 22:00-06:00", "2026-03-28T05:00:00Z", true),
            ("fri 22:00-06:00", "2026-03-27T05:00:00Z", false),
            ("sun 22:00-06:00", "2026-03-23T05:00:00Z", true),
            ("18:00-24:00", "2026-03-23T23:59:59Z", true),
            ("mon 08:00-09:00; tue 10:00-11:00", "2026-03-24T10:30:00Z", true),
            ("mon 08:00-09:00; tue 10:00-11:00", "2026-03-24T08:30:00Z", false),
            ("Monday", "2026-03-23T10:00:00Z", true),
            ("09:00-17:00 zone Europe/Berlin", "2026-03-23T08:00:00Z", true),
            ("09:00-17:00 zone Europe/Berlin", "2026-03-23T16:00:00Z", false),
        ] {
            assert_eq!(covers(schedule, at), expected, "{schedule} at {at}");
        }
    }

    #[test]
    fn daylight_saving_shortens_or_lengthens_a_night() {
        // Berlin skips 02:00 to 03:00 on 2026-03-29, and passes it twice on 2026-10-25.
        let night = "02:00-03:00 zone Europe/Berlin";
        let hours = |day: &str| {
            (0..24).filter(|hour| covers(night, &format!("{day}T{hour:02}:30:00Z"))).count()
        };
        assert_eq!(hours("2026-03-29"), 0);
        assert_eq!(hours("2026-03-30"), 1);
        assert_eq!(hours("2026-10-25"), 2);
    }

    #[test]
    fn the_zone_of_a_schedule_precedes_that_of_the_file() {
        let noon = |schedule: Schedule| {
            let at: Timestamp = "2026-03-23T03:00:00Z".parse().unwrap();
            schedule.covers(Time::from_nanos(at.as_nanosecond() as u64))
        };
        let plain = Schedule::parse("12:00-13:00").unwrap();
        assert!(!noon(plain.clone()) && noon(plain.clone().in_zone(Some("Asia/Tokyo"))));
        let own = Schedule::parse("12:00-13:00 zone Asia/Tokyo").unwrap();
        assert!(noon(own.in_zone(Some("Europe/Berlin"))));
    }
}
