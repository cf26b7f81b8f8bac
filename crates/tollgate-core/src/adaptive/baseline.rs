//! The latency without load: a mean while warming up, an exponential average afterwards.

use super::permits::ONE;
use crate::Span;

/// The number of samples whose plain mean starts the average.
const WARM_UP: u32 = 10;

/// Converts a latency to 10⁻⁶ ns, so that the average of whole nanoseconds keeps its fraction.
///
/// The result is two years at most and never zero: products fit 128 bits and quotients exist.
pub(super) fn femtos(rtt: Span) -> u128 {
    u128::from(rtt.as_nanos().clamp(1, 1 << 56)) * 1_000_000
}

/// The long-term average latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Baseline {
    femtos: u128,
    samples: u32,
}

impl Baseline {
    pub(super) const fn femtos(self) -> u128 {
        self.femtos
    }

    pub(super) const fn is_warm(self) -> bool {
        self.samples >= WARM_UP
    }

    /// Returns the average including `rtt`, over the last `window` samples.
    pub(super) fn with(self, rtt: u128, window: u32) -> Baseline {
        let samples = (self.samples + 1).min(WARM_UP);
        let (share, of) = if self.is_warm() { (2u32, window + 1) } else { (1, samples) };
        let (share, of) = (u128::from(share), u128::from(of));
        Baseline { femtos: (self.femtos * (of - share) + rtt * share + of / 2) / of, samples }
    }

    /// Returns the baseline 5 % lower if `rtt` is below half of it.
    ///
    /// Latency has then recovered from a long overload, and the average alone would take as long again
    /// to follow.
    pub(super) fn relaxed(self, rtt: u128) -> Baseline {
        let far_above = self.is_warm() && self.femtos > rtt * 2;
        Baseline { femtos: if far_above { self.femtos * 95 / 100 } else { self.femtos }, ..self }
    }

    /// Returns `pct` percent of the baseline over `rtt`, in [`ONE`]s and at most 1.
    pub(super) fn over(self, rtt: u128, pct: u32) -> u128 {
        let allowed = self.femtos * u128::from(pct) / 100;
        if allowed >= rtt { ONE } else { allowed * ONE / rtt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_of_ten_then_exponential() {
        let mut baseline = Baseline::default();
        for millis in [10, 10, 10, 10, 10, 20, 20, 20, 20, 20] {
            baseline = baseline.with(femtos(Span::from_millis(millis)), 600);
        }
        assert_eq!(baseline.femtos(), femtos(Span::from_millis(15)));
        baseline = baseline.with(femtos(Span::from_millis(20)), 600);
        assert_eq!(baseline.femtos(), 15_016_638_935_108); // 15 ms + 5 ms · 2/601
    }

    #[test]
    fn a_window_of_one_follows_at_once() {
        let ms = |n| femtos(Span::from_millis(n));
        let warm = (0..10).fold(Baseline::default(), |b, _| b.with(ms(10), 1));
        assert_eq!(warm.with(ms(70), 1).femtos(), ms(70));
        assert_eq!(warm.relaxed(ms(4)).femtos(), ms(10) * 95 / 100);
        assert_eq!(warm.over(ms(20), 150), ONE * 3 / 4);
    }
}
