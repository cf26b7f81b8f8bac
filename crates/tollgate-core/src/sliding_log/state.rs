//! The state of the sliding log: times and costs, the newest last, and their sum.
//!
//! The log is a ring buffer, since all changes happen at its ends: spends and refunds at the
//! newest, expiry at the oldest.

use alloc::collections::VecDeque;

use crate::Time;

/// The log of one key: the times and costs of its spends.
///
/// ```
/// use tollgate_core::{SlidingLogState, Time};
/// let spent = [(Time::from_nanos(5), 2), (Time::from_nanos(9), 1)];
/// let state: SlidingLogState = spent.into_iter().collect();
/// assert_eq!(state.entries().last(), Some((Time::from_nanos(9), 1)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlidingLogState {
    /// The newest last; times never decrease.
    pub(super) entries: VecDeque<LogEntry>,
    /// The cost of all entries, wide enough that no sum overflows.
    pub(super) total: u128,
}

/// The spends of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub(super) at: Time,
    pub(super) cost: u64,
}

impl SlidingLogState {
    /// Returns times and costs, the newest last.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Time, u64)> + DoubleEndedIterator {
        self.entries.iter().map(|entry| (entry.at, entry.cost))
    }

    /// Returns the bytes that the entries take on the heap, unused capacity included.
    ///
    /// ```
    /// use tollgate_core::{SlidingLogState, Time};
    /// let state: SlidingLogState = [(Time::EPOCH, 1)].into_iter().collect();
    /// assert!((16..=64).contains(&state.heap_bytes()));
    /// ```
    pub fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<LogEntry>()
    }

    /// Adds an entry at the newest end.
    ///
    /// If the clock went back, the entry gets the time of the newest one.
    pub(super) fn push(&mut self, at: Time, cost: u64, merge: bool) {
        self.total += u128::from(cost);
        match self.entries.back_mut() {
            Some(newest) if merge && newest.at >= at && newest.cost.checked_add(cost).is_some() => {
                newest.cost += cost;
            }
            newest => {
                let at = newest.map_or(at, |newest| at.max(newest.at));
                self.entries.push_back(LogEntry { at, cost });
            }
        }
    }

    /// Refunds `cost` from the newest entries.
    pub(super) fn take_back(&mut self, mut cost: u64) {
        while cost > 0 {
            let Some(newest) = self.entries.back_mut() else { return };
            let part = cost.min(newest.cost);
            newest.cost -= part;
            cost -= part;
            self.total -= u128::from(part);
            if newest.cost == 0 {
                self.entries.pop_back();
            }
        }
    }

    pub(super) fn drop_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.total -= u128::from(oldest.cost);
        }
    }
}

impl FromIterator<(Time, u64)> for SlidingLogState {
    fn from_iter<I: IntoIterator<Item = (Time, u64)>>(entries: I) -> SlidingLogState {
        let mut state = SlidingLogState::default();
        for (at, cost) in entries.into_iter().filter(|&(_, cost)| cost > 0) {
            state.push(at, cost, false);
        }
        state
    }
}
