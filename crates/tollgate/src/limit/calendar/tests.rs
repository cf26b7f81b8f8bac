//! Tests of calendar windows: month ends, leap years, clock changes and the far future.

use jiff::civil::DateTime;
use proptest::prelude::*;
use tollgate_core::Algorithm;

use super::*;
use crate::limit::{Limit, LimitAlgorithm};

fn calendar(unit: Unit, zone: &str, anchor: u64) -> ZonedCalendar {
    ZonedCalendar::new(Period { count: 1, unit }, zone, anchor).expect("valid")
}

fn at(zone_name: &str, civil: &str) -> Time {
    let civil: DateTime = civil.parse().expect("a civil time");
    let zoned = civil.to_zoned(zone(zone_name).expect("a zone")).expect("in range");
    Time::from_nanos(u64::try_from(zoned.timestamp().as_nanosecond()).expect("after 1970"))
}

/// Asserts the end of the period of each moment; a row is a moment and that end.
fn assert_period_ends(calendar: &ZonedCalendar, zone: &str, rows: &[(&str, &str)]) {
    for (now, end) in rows {
        assert_eq!(calendar.period_end(at(zone, now)), at(zone, end), "{now} in {zone}");
    }
}

#[test]
fn days_weeks_and_years_end_at_midnight() {
    assert_period_ends(
        &calendar(Unit::Day, "UTC", 1),
        "UTC",
        &[
            ("2026-03-31T00:00", "2026-04-01T00:00"),
            ("2026-03-31T23:59:59.999999999", "2026-04-01T00:00"),
            ("2026-12-31T12:00", "2027-01-01T00:00"),
        ],
    );
    assert_period_ends(
        &calendar(Unit::Week, "UTC", 1),
        "UTC",
        &[
            ("2026-07-06T00:00", "2026-07-13T00:00"), // a Monday
            ("2026-07-12T23:00", "2026-07-13T00:00"), // a Sunday
        ],
    );
    assert_period_ends(
        &calendar(Unit::Week, "UTC", 7),
        "UTC",
        &[("2026-07-11T23:00", "2026-07-12T00:00"), ("2026-07-12T00:00", "2026-07-19T00:00")],
    );
    assert_period_ends(
        &calendar(Unit::Year, "UTC", 1),
        "UTC",
        &[("2026-01-01T00:00", "2027-01-01T00:00"), ("2028-12-31T23:59", "2029-01-01T00:00")],
    );
}

#[test]
fn months_have_different_lengths() {
    assert_period_ends(
        &calendar(Unit::Month, "UTC", 1),
        "UTC",
        &[
            ("2026-02-28T23:59", "2026-03-01T00:00"),
            ("2028-02-28T23:59", "2028-03-01T00:00"),
            ("2028-02-29T23:59", "2028-03-01T00:00"),
            ("2100-02-28T23:59", "2100-03-01T00:00"),
            ("2026-12-01T00:00", "2027-01-01T00:00"),
        ],
    );
    assert_period_ends(
        &calendar(Unit::Month, "UTC", 15),
        "UTC",
        &[
            ("2026-02-14T23:59", "2026-02-15T00:00"),
            ("2026-02-15T00:00", "2026-03-15T00:00"),
            ("2026-12-31T00:00", "2027-01-15T00:00"),
        ],
    );
}

#[test]
fn an_anchor_beyond_the_month_means_its_last_day() {
    assert_period_ends(
        &calendar(Unit::Month, "UTC", 31),
        "UTC",
        &[
            ("2026-01-30T23:59", "2026-01-31T00:00"),
            ("2026-01-31T00:00", "2026-02-28T00:00"),
            ("2026-02-28T00:00", "2026-03-31T00:00"),
            ("2028-01-31T12:00", "2028-02-29T00:00"),
            ("2028-02-29T00:00", "2028-03-31T00:00"),
            ("2026-03-31T00:00", "2026-04-30T00:00"),
            ("2026-04-30T00:00", "2026-05-31T00:00"),
        ],
    );
}

#[test]
fn days_of_a_clock_change_are_shorter_or_longer() {
    for (zone, day, hours) in [
        ("Europe/Berlin", "2026-03-29T00:00", 23),
        ("Europe/Berlin", "2026-10-25T00:00", 25),
        ("America/New_York", "2026-03-08T00:00", 23),
        ("America/New_York", "2026-11-01T00:00", 25),
        ("Australia/Lord_Howe", "2026-06-01T00:00", 24),
        ("UTC", "2026-03-29T00:00", 24),
    ] {
        let start = at(zone, day);
        let length = calendar(Unit::Day, zone, 1).period_end(start).since(start);
        assert_eq!(length, Span::from_secs(hours * 3_600), "{day} in {zone}");
    }
    let (berlin, march) = ("Europe/Berlin", at("Europe/Berlin", "2026-03-01T00:00"));
    let month = calendar(Unit::Month, berlin, 1).period_end(march).since(march);
    assert_eq!(month, Span::from_secs((31 * 24 - 1) * 3_600));
}

#[test]
fn a_day_begins_later_if_the_clock_skips_midnight() {
    let zone = "America/Sao_Paulo"; // 2018-11-04 began at 01:00
    let end = calendar(Unit::Day, zone, 1).period_end(at(zone, "2018-11-03T12:00"));
    assert_eq!(end, at(zone, "2018-11-04T01:00"));
    let zone = "Pacific/Apia"; // 2011-12-30 did not happen
    let end = calendar(Unit::Day, zone, 1).period_end(at(zone, "2011-12-29T12:00"));
    assert_eq!(end, at(zone, "2011-12-31T00:00"));
}

#[test]
fn a_day_begins_at_the_first_midnight_if_there_are_two() {
    let (zone, minute) = ("America/St_Johns", Span::from_secs(60)); // back at 00:01 to 23:01
    let days = calendar(Unit::Day, zone, 1);
    let first = at(zone, "2010-11-07T00:00");
    let end = at(zone, "2010-11-08T00:00");
    assert_eq!(days.period_end(first - Span::from_nanos(1)), first);
    assert_eq!(days.period_end(first), end);
    // Half an hour later the clock shows 23:30 of the sixth again, but that day has ended.
    assert_eq!(days.period_end(first + minute.times(30)), end);
    assert_eq!(end.since(first), minute.times(25 * 60));
}

#[test]
fn a_daily_limit_lasts_the_day_of_a_clock_change() {
    let limit: Limit = "100/day calendar zone Europe/Berlin".parse().expect("valid");
    let LimitAlgorithm::FixedWindow(window) = limit.algorithm() else { panic!("not a window") };
    let berlin = |civil| at("Europe/Berlin", civil);
    let mut state = window.fresh(berlin("2026-10-25T00:30"));
    let verdict = window.decide(&mut state, berlin("2026-10-25T00:30"), 100);
    assert_eq!(verdict.reset_after, Span::from_secs(24 * 3_600 + 1_800));
    let late = berlin("2026-10-25T23:59");
    let denied = window.decide(&mut state, late, 1);
    assert_eq!(denied.retry_after(), Some(Span::from_secs(60)));
    assert!(window.decide(&mut state, late + Span::from_secs(60), 1).allowed);
}

#[test]
fn zones_are_compiled_in_and_ignore_case() {
    assert_eq!(zone("europe/BERLIN").expect("known").iana_name(), Some("Europe/Berlin"));
    assert!(zone_names().count() > 400);
    for name in ["", "Mars/Olympus", "../../etc/passwd", "Europe", "+02:00", "Europe/Berlin\0"] {
        assert_eq!(zone(name).map(drop), Err(InvalidLimit::UnknownTimeZone(name.into())));
    }
}

#[test]
fn no_clock_is_set_back_further_than_the_assumed_maximum() {
    let most = i64::try_from(MAX_SET_BACK.as_nanos() / 1_000_000_000).expect("small");
    for name in zone_names() {
        let zone = zone(&name).expect("listed");
        let year_2000 = Timestamp::from_second(946_684_800).expect("in range");
        let year_2100 = Timestamp::from_second(4_102_444_800).expect("in range");
        let mut offset = zone.to_offset(year_2000).seconds();
        for change in zone.following(year_2000).take_while(|c| c.timestamp() < year_2100) {
            assert!(i64::from(offset - change.offset().seconds()) <= most, "{name} {change:?}");
            offset = change.offset().seconds();
        }
    }
}

fn any_calendar() -> impl Strategy<Value = ZonedCalendar> {
    let names: Vec<String> = zone_names().collect();
    let unit = prop_oneof![
        (Just(Unit::Day), Just(1)),
        (Just(Unit::Week), 1..=7u64),
        (Just(Unit::Month), 1..=31u64),
        (Just(Unit::Year), Just(1)),
    ];
    (unit, prop::sample::select(names))
        .prop_map(|((unit, anchor), zone)| calendar(unit, &zone, anchor))
}

const YEAR_2000: u64 = 946_684_800_000_000_000;

proptest! {
    #[test]
    fn a_period_ends_after_now_and_its_end_is_stable(
        calendar in any_calendar(),
        now in prop_oneof![YEAR_2000..4_102_444_800_000_000_000, any::<u64>()],
        share in 0.0..1.0f64,
    ) {
        let now = Time::from_nanos(now);
        let end = calendar.period_end(now);
        prop_assert!(end > now);
        prop_assert!(end.since(now) <= calendar.longest() || now.as_nanos() < YEAR_2000);
        // Every moment between now and the end belongs to the same period.
        let inside = now + Span::from_nanos((end.since(now).as_nanos() as f64 * share) as u64);
        if inside < end {
            prop_assert_eq!(calendar.period_end(inside), end);
        }
        prop_assert!(calendar.period_end(end) > end || end == Time::MAX);
    }
}

#[test]
fn a_period_at_the_maximum_time_ends_at_the_maximum_time() {
    for unit in [Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
        assert_eq!(calendar(unit, "Asia/Tokyo", 1).period_end(Time::MAX), Time::MAX);
    }
}
