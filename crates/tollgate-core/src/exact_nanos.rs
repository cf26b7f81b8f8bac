//! Spans of time with a fraction of a nanosecond, so that no rate is rounded.
//!
//! At 3 tokens a second one token takes 333,333,333⅓ ns. An [`ExactNanos`] keeps the third: it is
//! whole nanoseconds plus `frac / rate` of one, where `rate` is the reduced rate of the meter that
//! owns it. Two values of one meter compare and add like plain numbers.

/// Whole nanoseconds and a fraction, with `0 <= frac < rate` for the owner's `rate`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ExactNanos {
    pub(crate) ns: u64,
    pub(crate) frac: u64,
}

impl ExactNanos {
    pub(crate) const MAX: ExactNanos = ExactNanos { ns: u64::MAX, frac: 0 };

    pub(crate) const fn whole(ns: u64) -> ExactNanos {
        ExactNanos { ns, frac: 0 }
    }

    /// Returns `n * period / rate` nanoseconds.
    #[inline]
    pub(crate) fn from_amount(n: u64, period: u64, rate: u64) -> ExactNanos {
        // The product of a usual cost fits 64 bits, and a 64-bit division is far cheaper.
        match n.checked_mul(period) {
            Some(units) => ExactNanos { ns: units / rate, frac: units % rate },
            None => ExactNanos::from_units(u128::from(n) * u128::from(period), rate),
        }
    }

    /// Returns `units / rate` nanoseconds; saturates.
    pub(crate) fn from_units(units: u128, rate: u64) -> ExactNanos {
        let rate = u128::from(rate);
        match u64::try_from(units / rate) {
            Ok(ns) => ExactNanos { ns, frac: (units % rate) as u64 },
            Err(_) => ExactNanos::MAX,
        }
    }

    /// Returns the value in units of `1 / rate` nanoseconds.
    pub(crate) const fn units(self, rate: u64) -> u128 {
        self.ns as u128 * rate as u128 + self.frac as u128
    }

    #[inline(always)]
    pub(crate) fn plus(self, other: ExactNanos, rate: u64) -> ExactNanos {
        let Some(ns) = self.ns.checked_add(other.ns) else { return ExactNanos::MAX };
        let frac = self.frac + other.frac;
        if frac < rate {
            return ExactNanos { ns, frac };
        }
        match ns.checked_add(1) {
            Some(ns) => ExactNanos { ns, frac: frac - rate },
            None => ExactNanos::MAX,
        }
    }

    /// Returns the difference, or zero if `other` is larger.
    #[inline(always)]
    pub(crate) fn minus(self, other: ExactNanos, rate: u64) -> ExactNanos {
        if self <= other {
            return ExactNanos::default();
        }
        let ns = self.ns - other.ns;
        if self.frac >= other.frac {
            ExactNanos { ns, frac: self.frac - other.frac }
        } else {
            ExactNanos { ns: ns - 1, frac: self.frac + rate - other.frac }
        }
    }

    /// Returns the first whole nanosecond at or after this value.
    #[inline(always)]
    pub(crate) fn ceil(self) -> u64 {
        self.ns.saturating_add(u64::from(self.frac > 0))
    }
}

/// Returns `units * to / from`, rounded down, for positive `from` and `to` below 2^126; saturates.
pub(crate) fn rescale(units: i128, from: i128, to: i128) -> i128 {
    let whole = units.div_euclid(from).saturating_mul(to);
    let (rest, from, to) = (units.rem_euclid(from) as u128, from as u128, to as u128);
    // Long multiplication from the highest bit of `to`, dividing as it goes: rest < from.
    let (mut quotient, mut left) = (0u128, 0u128);
    for bit in (0..u128::BITS - to.leading_zeros()).rev() {
        left = 2 * left + if to >> bit & 1 == 1 { rest } else { 0 };
        quotient = 2 * quotient + left / from;
        left %= from;
    }
    whole.saturating_add(quotient as i128)
}
