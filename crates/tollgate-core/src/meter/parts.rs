//! A meter in numbers, for a mirror of it in another language.

use crate::exact::Exact;
use crate::{Meter, MeterState};

/// What a [`Meter`] is made of. Spans are whole nanoseconds and parts of the next one, each
/// `1 / rate`, as in a [`MeterState`].
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
    /// Nanoseconds in which `rate` tokens come back.
    pub period: u64,
    /// How far the arrival time may run ahead of now.
    pub depth: (u64, u64),
    /// How far it may run ahead before requests are held back.
    pub smooth: Option<(u64, u64)>,
    /// What a new key already owes.
    pub owed_at_start: (u64, u64),
    /// Refill in intervals: their length, and what, added to a time, makes every refill fall on a
    /// multiple of it.
    pub interval: Option<(u64, u64)>,
    /// Any request passes while nothing is owed.
    pub pays_later: bool,
}

impl Meter {
    /// What this meter is made of.
    pub fn parts(&self) -> MeterParts {
        let pair = |exact: Exact| (exact.ns, exact.frac);
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

    /// The time `tokens` take to come back, in the parts of a [`MeterState`]; saturates.
    pub fn time_of(&self, tokens: u64) -> (u64, u64) {
        MeterState(self.plain.time_of(tokens)).parts()
    }
}
