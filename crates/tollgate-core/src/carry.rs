//! How the state of a key carries over when its limit changes at run time.

/// How the remaining amount of a key carries over to a changed limit.
///
/// ```
/// use tollgate_core::Carry;
/// // 30 of 100 left, and the limit becomes 1000:
/// assert_eq!(Carry::AsIs.apply(30, 100, 1000), 30);
/// assert_eq!(Carry::Proportional.apply(30, 100, 1000), 300);
/// assert_eq!(Carry::Additive.apply(30, 100, 1000), 930);
/// assert_eq!(Carry::Spent.apply(30, 100, 1000), 930);
/// assert_eq!(Carry::Reset.apply(30, 100, 1000), 1000);
/// // And back:
/// assert_eq!(Carry::Additive.apply(930, 1000, 100), 100);
/// assert_eq!(Carry::Spent.apply(930, 1000, 100), 30);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Carry {
    /// Keep the remaining amount, cut to the new limit.
    #[default]
    AsIs,
    /// Keep the remaining share: half full stays half full. Debt stays as it is.
    Proportional,
    /// Add the growth of the limit; a smaller limit acts as [`Carry::AsIs`].
    Additive,
    /// Keep the spent amount: a larger limit leaves more, a smaller one less, but makes no debt.
    Spent,
    /// Start afresh.
    Reset,
}

impl Carry {
    /// Returns what is left under the new capacity, given what was left under the old.
    ///
    /// A negative amount is debt.
    pub fn apply(self, left: i128, old_capacity: u64, new_capacity: u64) -> i128 {
        let (old, new) = (i128::from(old_capacity), i128::from(new_capacity));
        let carried = match self {
            Carry::AsIs => left,
            Carry::Proportional if left > 0 => left.saturating_mul(new) / old.max(1),
            Carry::Proportional => left,
            Carry::Additive => left + (new - old).max(0),
            Carry::Spent => (left + new - old).max(left.min(0)),
            Carry::Reset => new,
        };
        carried.min(new)
    }
}
