//! Limits with a fraction: permits counted in 10⁻¹², so that smoothing loses nothing.

use super::{Bounds, Sample};

/// One permit, and the number 1 for every ratio in this module.
pub(super) const ONE: u128 = 1_000_000_000_000;

/// A fractional number of permits. At most 2 · 2⁶⁴ of them, so a hundredfold still fits 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Permits(u128);

impl Permits {
    pub(super) const fn whole(n: u64) -> Permits {
        Permits(n as u128 * ONE)
    }

    /// Returns the whole permits, without the fraction.
    pub(super) const fn floor(self) -> u64 {
        (self.0 / ONE) as u64
    }

    pub(super) const fn billionths(self) -> u128 {
        self.0 / 1_000
    }

    pub(super) fn plus(self, other: Permits) -> Permits {
        Permits(self.0 + other.0)
    }

    pub(super) fn minus(self, other: Permits) -> Permits {
        Permits(self.0.saturating_sub(other.0))
    }

    /// Returns whether at least half of this limit was in use.
    pub(super) fn pressed_by(self, sample: Sample) -> bool {
        u128::from(sample.in_flight) * 2 * ONE >= self.0
    }

    /// Returns `share / of` of the permits, rounded up; `of` is not zero and `share` not above it.
    pub(super) fn ceil_share(self, share: u64, of: u64) -> u64 {
        let (share, of) = (u128::from(share), u128::from(of));
        let whole = self.0 / ONE * share;
        let rest = whole % of * ONE + self.0 % ONE * share;
        (whole / of + rest.div_ceil(of * ONE)) as u64
    }

    /// Returns the permits times `ratio` (of [`ONE`], at most 1).
    ///
    /// The product is split in two so that it cannot overflow.
    pub(super) fn times(self, ratio: u128) -> Permits {
        let (whole, part) = (self.0 / ONE, self.0 % ONE);
        Permits(whole * ratio + (part * ratio + ONE / 2) / ONE)
    }

    /// Returns the permits after a step of `pct` percent of the way to `target`.
    pub(super) fn toward(self, target: Permits, pct: u32) -> Permits {
        let pct = u128::from(pct);
        Permits((self.0 * (100 - pct) + target.0 * pct + 50) / 100)
    }

    pub(super) fn within(self, bounds: Bounds) -> Permits {
        self.clamp(Permits::whole(bounds.min), Permits::whole(bounds.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_exact_in_decimal() {
        let mut limit = Permits::whole(20);
        for _ in 0..5 {
            limit = limit.toward(limit.plus(Permits::whole(4)), 20);
        }
        assert_eq!(limit, Permits::whole(24)); // 24.000000000000004 in floating point
    }

    #[test]
    fn shares_round_up() {
        assert_eq!(Permits::whole(10).ceil_share(3, 10), 3);
        assert_eq!(Permits(10 * ONE + 1).ceil_share(3, 10), 4);
    }

    #[test]
    fn the_largest_values_fit() {
        let most = Permits::whole(u64::MAX);
        assert_eq!(most.times(ONE), most);
        assert_eq!(most.plus(most).toward(most, 100), most);
        assert_eq!(most.ceil_share(u64::MAX, u64::MAX), u64::MAX);
    }
}
