//! Carries the state of a meter over to a changed meter, exact to the fraction of a token.

use crate::exact_nanos::{ExactNanos, rescale};
use crate::{Algorithm, Carry, Meter, MeterState, Time};

impl Meter {
    /// Converts a state of the meter `old` to one of this meter.
    ///
    /// The remaining amount is rounded down to this meter's parts of a nanosecond, so a change of
    /// limits never creates tokens.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Carry, Meter, Span, Time};
    /// let old = Meter::new(10, Span::from_secs(1), 10)?;
    /// let new = Meter::new(100, Span::from_secs(1), 100)?;
    /// let mut state = old.fresh(Time::EPOCH);
    /// old.charge(&mut state, Time::EPOCH, 4);
    /// let state = new.carry(&old, &state, Time::EPOCH, Carry::Proportional);
    /// assert_eq!(new.peek(&state, Time::EPOCH).remaining, 60);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn carry(&self, old: &Meter, state: &MeterState, now: Time, policy: Carry) -> MeterState {
        if policy == Carry::Reset {
            return self.fresh(now);
        }
        // A token is `period` units of `1 / rate` nanoseconds.
        let (was_full, full) = (old.full_units(), self.full_units());
        let left = was_full - old.debt(state, now).units(old.plain.rate) as i128;
        let in_tokens =
            || rescale(left, i128::from(old.plain.period), i128::from(self.plain.period));
        let carried = match policy {
            Carry::Proportional if left > 0 => rescale(left, was_full, full),
            // A debt of a meter that pays later is a point in time, not tokens: keep it, as Guava does.
            Carry::Proportional if old.pays_later => {
                rescale(left, i128::from(old.plain.rate), i128::from(self.plain.rate))
            }
            Carry::Additive => in_tokens() + self.grown_units(old).max(0),
            Carry::Spent => {
                let left = in_tokens();
                (left + self.grown_units(old)).max(left.min(0))
            }
            _ => in_tokens(),
        };
        let owed = full.saturating_sub(carried.min(full)).unsigned_abs();
        let debt = ExactNanos::from_units(owed, self.plain.rate);
        MeterState(ExactNanos::whole(self.refilled_at(now)).plus(debt, self.plain.rate))
    }

    fn full_units(&self) -> i128 {
        self.plain.depth.units(self.plain.rate) as i128
    }

    /// Returns how much more than `old` this meter holds; negative for less.
    fn grown_units(&self, old: &Meter) -> i128 {
        let grown = i128::from(self.plain.burst) - i128::from(old.plain.burst);
        grown * i128::from(self.plain.period)
    }
}
