//! Points and spans of time, in whole nanoseconds.
//!
//! The engine never asks what time it is: every function is told. `Time` counts from the Unix
//! epoch so that aligned windows mean the same on every host; the store that owns the clock is
//! free to drive it from a monotonic source.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since the Unix epoch. Arithmetic saturates (the year 2554).
///
/// ```
/// use tollgate_core::{Span, Time};
/// assert_eq!(Time::from_nanos(5) + Span::from_nanos(2), Time::from_nanos(7));
/// assert_eq!(Time::from_nanos(5).since(Time::from_nanos(9)), Span::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds, up to 584 years. Arithmetic saturates.
///
/// ```
/// use tollgate_core::Span;
/// assert_eq!(Span::from_millis(3).as_nanos(), 3_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Time {
    /// The Unix epoch.
    pub const EPOCH: Time = Time(0);
    /// The last representable instant; what "later than that" saturates to.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span; what sums saturate to.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros.saturating_mul(1_000))
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000_000))
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Microseconds, rounded up: a caller told to wait this long is never early.
    ///
    /// ```
    /// use tollgate_core::Span;
    /// assert_eq!(Span::from_nanos(1_001).as_micros_ceil(), 2);
    /// ```
    pub const fn as_micros_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This span `n` times over.
    pub const fn times(self, n: u64) -> Span {
        Span(self.0.saturating_mul(n))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from(*self))
    }
}
