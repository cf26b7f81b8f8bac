//! Points and spans of time, in whole nanoseconds.
//!
//! The algorithms never read a clock: every function takes the time as an argument. `Time` counts
//! from the Unix epoch so that aligned windows are the same on every host; the store that owns the
//! clock may drive it from a monotonic source.

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
    /// The last representable instant, to which later ones saturate.
    pub const MAX: Time = Time(u64::MAX);

    /// Creates the instant `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Returns the nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if it lies ahead.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// A span of zero length.
    pub const ZERO: Span = Span(0);
    /// The longest span, to which sums saturate.
    pub const MAX: Span = Span(u64::MAX);

    /// Creates a span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// Creates a span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros.saturating_mul(1_000))
    }

    /// Creates a span of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000_000))
    }

    /// Creates a span of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the span in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the span in microseconds, rounded up, so that this wait is never too short.
    ///
    /// ```
    /// use tollgate_core::Span;
    /// assert_eq!(Span::from_nanos(1_001).as_micros_ceil(), 2);
    /// ```
    pub const fn as_micros_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Returns whether the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns `n` times this span.
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
