//! Random numbers from a seed: the same on every run.

use super::scenario::{Conditions, WorkDistribution};

/// A seeded generator of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number of SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 up to, not including, 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an exponentially distributed number with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }

    /// Returns a normally distributed number around 0, with a deviation of 1.
    fn normal(&mut self) -> f64 {
        let (radius, turn) = (self.exponential(2.0).sqrt(), self.share());
        radius * (std::f64::consts::TAU * turn).cos()
    }

    /// Returns the work of a request, and the excess of its kind over the mean, in milliseconds.
    pub(crate) fn work_ms(&mut self, conditions: &Conditions) -> (f64, f64) {
        let mean = conditions.service_ms;
        match conditions.work {
            WorkDistribution::Narrow => (mean * self.narrow(), 0.0),
            WorkDistribution::Wide => (mean * self.exponential(1.0), 0.0),
            WorkDistribution::Heavy => (mean * (self.normal() - 0.5).exp(), 0.0),
            WorkDistribution::TwoKinds { short_ms, long_ms, long_share } => {
                let kind_ms = if self.share() < long_share { long_ms } else { short_ms };
                (kind_ms * self.narrow(), kind_ms - mean)
            }
        }
    }

    /// Returns a number around 1: half of it is fixed, the other half exponentially distributed.
    fn narrow(&mut self) -> f64 {
        0.5 + 0.5 * self.exponential(1.0)
    }
}
