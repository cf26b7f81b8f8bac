//! The parameters of a warm-up as numbers, for an implementation in another language.

use crate::WarmUp;
use crate::exact_nanos::ExactNanos;

/// The parameters of a [`WarmUp`].
///
/// ```
/// use tollgate_core::{Span, WarmUp};
/// let parts = WarmUp::new(10, Span::from_secs(1), Span::from_secs(5))?.parts();
/// assert_eq!((parts.rate, parts.cold_factor, parts.scale), (10, 3, 80));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUpParts {
    /// Permits per `period`.
    pub rate: u64,
    /// The period in nanoseconds.
    pub period: u64,
    /// Idle nanoseconds from warm to cold.
    pub warm_up: u64,
    /// The time of the coldest permit, in multiples of the usual interval.
    pub cold_factor: u32,
    /// Parts of a nanosecond in the states.
    pub scale: u64,
}

impl WarmUp {
    /// Returns the parameters of this limit.
    pub fn parts(&self) -> WarmUpParts {
        let WarmUp { rate, period, warm_up, cold_factor, scale } = *self;
        WarmUpParts { rate, period, warm_up, cold_factor, scale }
    }

    /// Returns the time that `permits` take when warm: whole nanoseconds, and parts of the next one.
    pub fn time_of(&self, permits: u64) -> (u64, u64) {
        let ExactNanos { ns, frac } = self.warm_time_of(permits);
        (ns, frac)
    }

    /// Returns the idle time that saves `permits`.
    pub fn idle_for(&self, permits: u64) -> (u64, u64) {
        let ExactNanos { ns, frac } = self.idle_time_of(permits);
        (ns, frac)
    }
}
