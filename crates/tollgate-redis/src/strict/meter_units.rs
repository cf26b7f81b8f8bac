//! The arrival time of a meter in microseconds and fractions of one.
//!
//! The Rust algorithm counts nanoseconds and fractions of `1 / rate` nanoseconds. Redis counts
//! microseconds, and a Lua number is exact below 2^53. A token takes `period / rate` nanoseconds,
//! where the two have no common divisor. Now is a whole microsecond, so every arrival time is a
//! multiple of `gcd(1000, period) / rate` nanoseconds: these are the parts. At `10/s` a part is a
//! microsecond.

use tollgate_core::{Meter, MeterParts, MeterState};

/// The largest whole number up to which Lua is exact.
pub(super) const MAX: u64 = (1 << 53) - 1;

/// The units in which the times of a meter are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeterUnits {
    rate: u128,
    /// The length of a part, in `1 / rate` nanoseconds.
    part: u128,
    /// The number of parts in a microsecond.
    pub(super) scale: u64,
}

impl MeterUnits {
    /// Returns the units of a meter; `None` if a microsecond has too many parts for Lua.
    ///
    /// A counter whose limit `varies` has nanoseconds for parts, the same under each of its limits.
    pub(super) fn new(meter: &Meter, varies: bool) -> Option<MeterUnits> {
        let MeterParts { rate, period, depth, smooth, owed_at_start, .. } = meter.parts();
        let part = if varies { 1 } else { gcd(1000, period) };
        let fits = |(ns, frac): (u64, u64)| {
            let units = u128::from(ns) * u128::from(rate) + u128::from(frac);
            units.is_multiple_of(part.into())
        };
        let all = [Some(depth), smooth, Some(owed_at_start)].into_iter().flatten().all(fits);
        let part = if all { part } else { 1 };
        let scale = rate.checked_mul(1000 / part)?;
        (scale <= MAX / 2).then_some(MeterUnits { rate: rate.into(), part: part.into(), scale })
    }

    /// Converts a time to microseconds and parts. A time between two parts, possible after a change
    /// of limits, is rounded up so that no token is created.
    pub(super) fn in_parts(&self, (ns, frac): (u64, u64)) -> (u64, u64) {
        let parts = (u128::from(ns) * self.rate + u128::from(frac)).div_ceil(self.part);
        let scale = u128::from(self.scale);
        ((parts / scale) as u64, (parts % scale) as u64)
    }

    /// Converts the difference of two times to microseconds and parts; 0 if `less` is longer.
    pub(super) fn difference_in_parts(
        &self,
        (ns, frac): (u64, u64),
        less: (u64, u64),
    ) -> (u64, u64) {
        let units = |(ns, frac): (u64, u64)| u128::from(ns) * self.rate + u128::from(frac);
        let left = units((ns, frac)).saturating_sub(units(less));
        self.in_parts(((left / self.rate) as u64, (left % self.rate) as u64))
    }

    /// Returns the state of a stored arrival time; saturates.
    pub(super) fn state(&self, us: u64, part: u64) -> MeterState {
        let units = (u128::from(us) * u128::from(self.scale) + u128::from(part)) * self.part;
        match u64::try_from(units / self.rate) {
            Ok(ns) => MeterState::from_parts(ns, (units % self.rate) as u64),
            Err(_) => MeterState::from_parts(u64::MAX, 0),
        }
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
