//! Units of time (`s`, `min`, `month`) and periods, which are a count of a unit.

use std::fmt;
use std::time::Duration;

use tollgate_core::Span;

/// A unit of time.
///
/// Outside a calendar a month is 30 days and a year 365.
///
/// ```
/// use tollgate::limit::Unit;
/// assert_eq!(Unit::Minute.to_string(), "min");
/// assert_eq!(Unit::Month.span(), Unit::Day.span().times(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// `ns`
    Nanosecond,
    /// `us`
    Microsecond,
    /// `ms`
    Millisecond,
    /// `s`
    Second,
    /// `min`, never `m`
    Minute,
    /// `h`
    Hour,
    /// `day` or `d`
    Day,
    /// `week` or `w`
    Week,
    /// `month`
    Month,
    /// `year`
    Year,
}

/// Every unit with its length in nanoseconds and its spellings, the canonical one first.
const UNITS: [(Unit, u64, &[&str]); 10] = [
    (Unit::Nanosecond, 1, &["ns", "nanosecond", "nanoseconds"]),
    (Unit::Microsecond, 1_000, &["us", "µs", "microsecond", "microseconds"]),
    (Unit::Millisecond, 1_000_000, &["ms", "msec", "millis", "millisecond", "milliseconds"]),
    (Unit::Second, SECOND, &["s", "sec", "secs", "second", "seconds"]),
    (Unit::Minute, 60 * SECOND, &["min", "mins", "minute", "minutes"]),
    (Unit::Hour, 3_600 * SECOND, &["h", "hr", "hrs", "hour", "hours"]),
    (Unit::Day, DAY, &["day", "days", "d"]),
    (Unit::Week, 7 * DAY, &["week", "weeks", "w"]),
    (Unit::Month, 30 * DAY, &["month", "months"]),
    (Unit::Year, 365 * DAY, &["year", "years", "yr", "y"]),
];
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

impl Unit {
    /// Returns the length of the unit.
    pub const fn span(self) -> Span {
        Span::from_nanos(UNITS[self as usize].1)
    }

    /// Returns the unit spelled `word`, ignoring case.
    pub(super) fn from_name(word: &str) -> Option<Unit> {
        let spelled = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(word));
        UNITS.iter().find(|(_, _, names)| spelled(names)).map(|(unit, ..)| *unit)
    }

    /// Returns every spelling of every unit.
    pub(super) fn spellings() -> impl Iterator<Item = &'static str> {
        UNITS.iter().flat_map(|(_, _, names)| names.iter().copied())
    }

    /// Returns the largest unit up to a week that divides `nanos`, and the quotient.
    fn largest_divisor(nanos: u64) -> (u64, Unit) {
        let fixed = UNITS.iter().rev().filter(|(unit, ..)| *unit <= Unit::Week);
        let exact = fixed.clone().find(|(_, length, _)| nanos > 0 && nanos.is_multiple_of(*length));
        exact.map_or((nanos, Unit::Nanosecond), |(unit, length, _)| (nanos / length, *unit))
    }

    /// Returns the spelling after a number: the `d` of `7d`, which is `day` on its own.
    fn suffix(self) -> &'static str {
        match self {
            Unit::Day => "d",
            Unit::Week => "w",
            _ => UNITS[self as usize].2[0],
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(UNITS[*self as usize].2[0])
    }
}

/// A count of a unit of time: the `10s` of `5/10s`.
///
/// ```
/// use tollgate::limit::{Period, Unit};
/// let period = Period { count: 10, unit: Unit::Second };
/// assert_eq!(period.to_string(), "10s");
/// assert_eq!(Period { count: 1, unit: Unit::Hour }.to_string(), "h");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Period {
    /// The number of units; at least 1.
    pub count: u32,
    /// The unit that is counted.
    pub unit: Unit,
}

impl Period {
    /// Returns the length of the period, with 30 days per month and 365 per year.
    ///
    /// ```
    /// use tollgate::limit::{Period, Unit};
    /// use tollgate_core::Span;
    /// assert_eq!(Period { count: 2, unit: Unit::Minute }.span(), Span::from_secs(120));
    /// ```
    pub const fn span(self) -> Span {
        self.unit.span().times(self.count as u64)
    }

    /// Returns the period of exactly `length`, in the largest unit that gives a whole number.
    ///
    /// Returns `None` if the count exceeds 32 bits, as for 10 s and one nanosecond.
    pub(super) fn from_duration(length: Duration) -> Option<Period> {
        let (count, unit) = Unit::largest_divisor(u64::try_from(length.as_nanos()).ok()?);
        Some(Period { count: u32::try_from(count).ok()?, unit })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{}", self.unit),
            count => write!(f, "{count}{}", self.unit.suffix()),
        }
    }
}

/// Displays a span in the spelling of the grammar: `500ms`, `3s`, `1min`.
pub(super) struct SpanText(pub(super) Span);

impl fmt::Display for SpanText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = Unit::largest_divisor(self.0.as_nanos());
        write!(f, "{count}{}", unit.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_listed_in_order() {
        for (index, (unit, length, _)) in UNITS.iter().enumerate() {
            assert_eq!(*unit as usize, index);
            assert!(UNITS[..index].iter().all(|(_, shorter, _)| shorter < length));
        }
    }

    #[test]
    fn no_two_units_share_a_spelling() {
        let mut all: Vec<_> = Unit::spellings().map(str::to_lowercase).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(Unit::from_name("m"), None);
    }

    #[test]
    fn a_duration_becomes_the_largest_whole_unit() {
        let text =
            |millis| Period::from_duration(Duration::from_millis(millis)).unwrap().to_string();
        assert_eq!(text(1_500), "1500ms");
        assert_eq!(text(60_000), "min");
        assert_eq!(text(7 * 86_400_000), "week");
        assert_eq!(text(30 * 86_400_000), "30d");
        assert_eq!(Period::from_duration(Duration::new(10, 1)), None);
    }
}
