//! What the slots hold: a ring of counters, their sum, and the end of the line.

use alloc::vec::Vec;

use crate::Time;

/// A ring of counters, one for each slot.
///
/// ```
/// use tollgate_core::{SlidingSlotsState, Time};
/// // Slot 7 is the newest of three; slot `n` is found at `n % 3`.
/// let state = SlidingSlotsState::from_parts(7, vec![40, 2, 0], Time::EPOCH);
/// assert_eq!(state.parts(), (7, &[40, 2, 0][..], Time::EPOCH));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingSlotsState {
    /// Slot number `n` is at `n % slots`. Empty until something is spent.
    pub(super) ring: Vec<u64>,
    /// The number of the newest slot, counted from the Unix epoch.
    pub(super) newest: u64,
    /// The sum of the ring. Wider than a counter, so that no sum of them overflows.
    pub(super) total: u128,
    /// Until when places in line are taken; nobody passes before those who wait.
    pub(super) line: Time,
}

impl SlidingSlotsState {
    /// The state whose newest slot is `newest`, with `ring[n % slots]` spent in slot `n` and
    /// places in line taken until `line`.
    pub fn from_parts(newest: u64, ring: Vec<u64>, line: Time) -> SlidingSlotsState {
        let total = ring.iter().map(|&spent| u128::from(spent)).sum();
        SlidingSlotsState { ring, newest, total, line }
    }

    /// The newest slot, the ring (empty: nothing was ever spent), the end of the line.
    pub fn parts(&self) -> (u64, &[u64], Time) {
        (self.newest, &self.ring, self.line)
    }
}
