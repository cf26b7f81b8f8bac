//! The units of time of this format: of fixed lengths, aligned to the epoch.

use std::fmt;

use tollgate_core::Span;

/// The unit of a limit.
///
/// A month is 30 days and a year 365 days, without a calendar.
///
/// ```
/// use tollgate_rules::envoy::Unit;
/// assert_eq!(Unit::named("Minute"), Some(Unit::Minute));
/// assert_eq!(Unit::Month.span(), Unit::Day.span().times(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

/// Every unit with its name, its name in the grammar of limits, and its length in seconds.
const UNITS: [(Unit, &str, &str, u64); 7] = [
    (Unit::Second, "second", "s", 1),
    (Unit::Minute, "minute", "min", 60),
    (Unit::Hour, "hour", "h", 3_600),
    (Unit::Day, "day", "d", 86_400),
    (Unit::Week, "week", "w", 7 * 86_400),
    (Unit::Month, "month", "month", 30 * 86_400),
    (Unit::Year, "year", "year", 365 * 86_400),
];

impl Unit {
    /// Returns the unit of that name, in either case.
    pub fn named(name: &str) -> Option<Unit> {
        let known = UNITS.iter().find(|(_, known, ..)| known.eq_ignore_ascii_case(name));
        known.map(|(unit, ..)| *unit)
    }

    /// Returns the name in lower case.
    pub const fn as_str(self) -> &'static str {
        UNITS[self as usize].1
    }

    /// Returns the length.
    pub const fn span(self) -> Span {
        Span::from_secs(UNITS[self as usize].3)
    }

    /// Returns the name in the grammar of limits.
    pub(super) const fn in_limits(self) -> &'static str {
        UNITS[self as usize].2
    }

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        UNITS.iter().map(|(_, name, ..)| *name)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_listed_in_order() {
        assert!(UNITS.iter().enumerate().all(|(index, (unit, ..))| *unit as usize == index));
    }
}
