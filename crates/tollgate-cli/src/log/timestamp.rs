//! Timestamps in the formats of logs and people.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};
use tollgate::Time;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses `2026-01-31T12:00:00Z`, with any offset; without one it is UTC. A date alone is its
/// midnight, a number the time since 1970.
pub(crate) fn instant(text: &str) -> Option<Time> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return epoch(number);
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return time(at);
    }
    // `2026-01-31T12:00:00+0100[Europe/Paris]`, or no zone at all.
    if let Ok(at) = text.parse::<Zoned>() {
        return time(at.timestamp());
    }
    let civil: DateTime = text.parse().ok()?;
    time(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970; its size decides
/// the unit.
pub(super) fn epoch(number: f64) -> Option<Time> {
    let micros = match number {
        0.0..1e11 => number * 1e6,
        1e11..1e14 => number * 1e3,
        1e14..1e17 => number,
        1e17..1e19 => number / 1e3,
        _ => return None,
    };
    Some(Time::from_nanos((micros.round() as u64).checked_mul(1_000)?))
}

/// Parses the format of web servers: `10/Oct/2000:13:55:36 -0700`.
pub(super) fn common(text: &str) -> Option<Time> {
    let (day, rest) = text.split_once('/')?;
    let (month, rest) = rest.split_once('/')?;
    let (year, rest) = rest.split_once(':')?;
    let (clock, offset) = rest.split_once(' ')?;
    let month = 1 + MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as i8;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(|part| part.parse::<i8>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let civil = DateTime::new(
        year.parse().ok()?,
        month,
        day.parse().ok()?,
        hour,
        minute,
        second.min(59), // a leap second
        nanos(fraction)?,
    );
    let at = civil.ok()?.to_zoned(TimeZone::fixed(offset_of(offset)?)).ok()?;
    time(at.timestamp())
}

fn nanos(fraction: &str) -> Option<i32> {
    match fraction {
        "" => Some(0),
        digits if digits.len() <= 9 => format!("{digits:0<9}").parse().ok(),
        _ => None,
    }
}

fn offset_of(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let number: i32 = digits.parse().ok().filter(|_| digits.len() == 4)?;
    Offset::from_seconds(sign * (number / 100 * 3_600 + number % 100 * 60)).ok()
}

fn time(at: Timestamp) -> Option<Time> {
    Some(Time::from_nanos(u64::try_from(at.as_nanosecond()).ok()?))
}

/// Formats a time for people: `2026-01-31 12:00:00`, in UTC.
pub(crate) fn date(at_us: u64) -> String {
    let micros = i64::try_from(at_us).unwrap_or(i64::MAX);
    match Timestamp::from_microsecond(micros) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("{at_us}µs after 1970"),
    }
}

/// Formats a time for programs: `2026-01-31T12:00:00.5Z`.
pub(crate) fn rfc3339(at_us: u64) -> String {
    let micros = i64::try_from(at_us).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(time: Option<Time>) -> Option<u64> {
        time.map(|time| time.as_nanos() / 1_000)
    }

    #[test]
    fn every_spelling_of_an_instant() {
        let expected = Some(1_767_268_800_000_000);
        for text in [
            "2026-01-01T12:00:00Z",
            "2026-01-01t13:00:00.000+01:00",
            "2026-01-01T12:00:00",
            "2026-01-01 12:00:00",
            "1767268800",
            "1767268800.000",
            "1767268800000",
            "1767268800000000",
            "1767268800000000000",
        ] {
            assert_eq!(micros(instant(text)), expected, "{text}");
        }
        assert_eq!(micros(instant("2026-01-01")), Some(1_767_225_600_000_000));
        assert_eq!(micros(instant("1646861401.524")), Some(1_646_861_401_524_000));
        for text in ["", "-", "noon", "1969-01-01T00:00:00Z", "-5", "nan", "inf", "1e30"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }

    #[test]
    fn the_time_of_web_servers() {
        let at = |text| micros(common(text)).map(|us| us / 1_000);
        assert_eq!(at("10/Oct/2000:13:55:36 -0700"), Some(971_211_336_000));
        assert_eq!(at("10/oct/2000:20:55:36.250 +0000"), Some(971_211_336_250));
        assert_eq!(at("31/Dec/2016:23:59:60 +0000"), Some(1_483_228_799_000));
        for text in [
            "10/Okt/2000:13:55:36 -0700",
            "32/Oct/2000:13:55:36 -0700",
            "x",
            "",
            "10/Oct/2000:13:55:36",
            "10/Oct/2000:13:55:36 0700",
            "10/Oct/2000:13:55:36 +é700",
        ] {
            assert_eq!(common(text), None, "{text}");
        }
    }

    #[test]
    fn dates_are_in_utc() {
        assert_eq!(date(1_767_268_800_999_999), "2026-01-01 12:00:00");
        assert_eq!(date(u64::MAX), format!("{}µs after 1970", u64::MAX));
    }
}
