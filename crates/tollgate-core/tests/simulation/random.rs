//! Random numbers from a seed: the same on every run.

use super::world::{Spread, World};

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 up to, not including, 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed, with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }

    /// Normally distributed around 0, with a deviation of 1.
    fn normal(&mut self) -> f64 {
        let (radius, turn) = (self.exponential(2.0).sqrt(), self.share());
        radius * (std::f64::consts::TAU * turn).cos()
    }

    /// How much work a request is, and how much more its kind is than the mean of all, in
    /// milliseconds.
    pub(crate) fn work_ms(&mut self, world: &World) -> (f64, f64) {
        let mean = world.service_ms;
        match world.spread {
            Spread::Narrow => (mean * self.narrow(), 0.0),
            Spread::Wide => (mean * self.exponential(1.0), 0.0),
            Spread::Heavy => (mean * (self.normal() - 0.5).exp(), 0.0),
            Spread::Kinds { short_ms, long_ms, long_share } => {
                let kind_ms = if self.share() < long_share { long_ms } else { short_ms };
                (kind_ms * self.narrow(), kind_ms - mean)
            }
        }
    }

    /// Around 1: half of it fixed, the other half exponentially distributed.
    fn narrow(&mut self) -> f64 {
        0.5 + 0.5 * self.exponential(1.0)
    }
}
