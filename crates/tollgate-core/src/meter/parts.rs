//! The parameters of a meter as numbers, for an implementation in another language.

use crate::exact_nanos::ExactNanos;
use crate::{Meter, MeterState};

/// The parameters of a [`Meter`].
///
/// Spans are whole nanoseconds and parts of the next one, each `1 / rate`, as in a [`MeterState`].
///
/// ```
/// use tollgate_core::{Meter, Span};
/// let parts = Meter::new(3, Span::from_secs(1), 6)?.parts();
/// assert_eq!((parts.rate, parts.period), (3, 1_000_000_000));
/// assert_eq!(parts.depth, (2_000_000_000, 0));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterParts {
    /// Tokens per `period`, the two having no common divisor.
    pub rate: u64,
    /// Nanoseconds in which `rate` tokens are refilled.
    pub period: u64,
    /// How far the arrival time may run ahead of now.
    pub depth: (u64, u64),
    /// How far the arrival time may run ahead before requests are delayed.
    pub smooth: Option<(u64, u64)>,
    /// The debt of a new key.
    pub owed_at_start: (u64, u64),
    /// Interval refill: the length, and the offset that aligns refills to multiples of it.
    pub interval: Option<(u64, u64)>,
    /// Whether a request of any cost passes while there is no debt.
    pub pays_later: bool,
}

impl Meter {
    /// Returns the parameters of this meter.
    pub fn parts(&self) -> MeterParts {
        let pair = |exact: ExactNanos| (exact.ns, exact.frac);
        MeterParts {
            rate: self.plain.rate,
            period: self.plain.period,
            depth: pair(self.plain.depth),
            smooth: self.smooth.map(pair),
            owed_at_start: pair(self.owed_at_start),
            interval: self.tick_offset.map(|offset| (self.interval, offset)),
            pays_later: self.pays_later,
        }
    }

    /// Returns the time that `tokens` take to refill, in the parts of a [`MeterState`]; saturates.
    pub fn time_of(&self, tokens: u64) -> (u64, u64) {
        MeterState(self.plain.time_of(tokens)).parts()
    }
}
