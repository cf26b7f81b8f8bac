//! Carrying a meter's state over to a changed meter, exact to the fraction of a token.

use crate::exact::{Exact, rescale};
use crate::{Algorithm, Carry, Meter, MeterState, Time};

impl Meter {
    /// Takes over a state of `old`. What is left is rounded down to the new meter's own parts of
    /// a nanosecond, so a change of limits never mints anything.
    pub fn carry(&self, old: &Meter, state: &MeterState, now: Time, how: Carry) -> MeterState {
        if how == Carry::Reset {
            return self.fresh(now);
        }
        // A token is `period` units of `1 / rate` nanoseconds.
        let (was_full, full) = (old.full_units(), self.full_units());
        let left = was_full - old.debt(state, now).units(old.rate) as i128;
        let in_tokens = || rescale(left, i128::from(old.period), i128::from(self.period));
        let carried = match how {
            Carry::Proportional if left > 0 => rescale(left, was_full, full),
            // Whoever pays later was promised a moment, not a number of tokens: keep it, as Guava.
            Carry::Proportional if old.pays_later => {
                rescale(left, i128::from(old.rate), i128::from(self.rate))
            }
            Carry::Additive => in_tokens() + self.grown_units(old),
            _ => in_tokens(),
        };
        let owed = full.saturating_sub(carried.min(full)).unsigned_abs();
        let debt = Exact::from_units(owed, self.rate);
        MeterState(Exact::whole(self.refilled_at(now)).plus(debt, self.rate))
    }

    fn full_units(&self) -> i128 {
        self.depth.units(self.rate) as i128
    }

    /// What this meter holds more than `old`.
    fn grown_units(&self, old: &Meter) -> i128 {
        i128::from(self.burst.saturating_sub(old.burst)) * i128::from(self.period)
    }
}
