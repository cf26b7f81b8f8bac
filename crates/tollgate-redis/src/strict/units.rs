//! The arrival time of a meter in microseconds and parts of one.
//!
//! The engine keeps nanoseconds and parts of one, `1 / rate` each. Redis tells microseconds, and a
//! Lua number is exact below 2^53. A token takes `period / rate` nanoseconds, the two having no
//! common divisor, so with now a whole microsecond every arrival time is a multiple of
//! `gcd(1000, period) / rate` nanoseconds: those are the parts. At `10/s` a part is a microsecond.

use tollgate_core::{Meter, MeterParts, MeterState};

/// The largest number Lua is exact with.
pub(super) const MAX: u64 = (1 << 53) - 1;

/// How a meter's times are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    rate: u128,
    /// So many `1 / rate` nanoseconds are a part.
    part: u128,
    /// So many parts are a microsecond.
    pub(super) scale: u64,
}

impl Units {
    /// None if there would be too many parts.
    pub(super) fn of(meter: &Meter) -> Option<Units> {
        let MeterParts { rate, period, depth, smooth, owed_at_start, .. } = meter.parts();
        let part = gcd(1000, period);
        let fits = |(ns, frac): (u64, u64)| {
            let units = u128::from(ns) * u128::from(rate) + u128::from(frac);
            units.is_multiple_of(part.into())
        };
        let all = [Some(depth), smooth, Some(owed_at_start)].into_iter().flatten().all(fits);
        let part = if all { part } else { 1 };
        let scale = rate.checked_mul(1000 / part)?;
        (scale <= MAX / 2).then_some(Units { rate: rate.into(), part: part.into(), scale })
    }

    /// Microseconds and parts. What lies between two parts, as it may after a change of limits, is
    /// rounded up: nothing is minted.
    pub(super) fn written(&self, (ns, frac): (u64, u64)) -> (u64, u64) {
        let parts = (u128::from(ns) * self.rate + u128::from(frac)).div_ceil(self.part);
        let scale = u128::from(self.scale);
        ((parts / scale) as u64, (parts % scale) as u64)
    }

    /// The same of one time without another that is no longer.
    pub(super) fn less(&self, (ns, frac): (u64, u64), less: (u64, u64)) -> (u64, u64) {
        let units = |(ns, frac): (u64, u64)| u128::from(ns) * self.rate + u128::from(frac);
        let left = units((ns, frac)).saturating_sub(units(less));
        self.written(((left / self.rate) as u64, (left % self.rate) as u64))
    }

    /// The state of that many microseconds and parts; saturates.
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
