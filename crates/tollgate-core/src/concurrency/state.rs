//! The leases of one key, in the order in which they run out, and found by their id.
//!
//! Few of them are a list: looking through it is quicker than anything clever. Of many it is not,
//! and with ten thousand in flight every request would look at ten thousand: those are two trees.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque, btree_map, vec_deque};

use super::Lease;
use crate::Time;

/// More than this are kept in trees.
const FEW: usize = 256;
/// So few are a list again. Far from the other, so that nobody goes to and fro.
const FEW_AGAIN: usize = 64;

/// The leases of one key.
///
/// ```
/// use tollgate_core::{ConcurrencyState, Lease, Time};
/// let lease = Lease { id: 7, cost: 1, expires: Time::from_nanos(9) };
/// let state: ConcurrencyState = [lease].into_iter().collect();
/// assert_eq!(state.leases().next(), Some(lease));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConcurrencyState {
    kept: Kept,
    /// The cost of all leases. Wider than a cost, so that no sum of them overflows.
    total: u128,
}

/// By when they run out; of those that do so together, the lowest id comes first.
#[derive(Clone, Debug)]
enum Kept {
    Few(VecDeque<Lease>),
    Many(Box<Trees>),
}

#[derive(Clone, Debug, Default)]
struct Trees {
    /// What each costs, by when it runs out and its id.
    costs: BTreeMap<(Time, u64), u64>,
    /// When each runs out, by its id.
    ends: BTreeMap<u64, Time>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept::Few(VecDeque::new())
    }
}

impl ConcurrencyState {
    /// The leases not yet known to be gone, the one that runs out first leading.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = Lease> {
        match &self.kept {
            Kept::Few(list) => InOrder::Few(list.iter()),
            Kept::Many(trees) => InOrder::Many(trees.costs.iter()),
        }
    }

    /// The cost of all of them.
    pub(super) fn total(&self) -> u128 {
        self.total
    }

    /// When the last of them runs out.
    pub(super) fn last_end(&self) -> Option<Time> {
        match &self.kept {
            Kept::Few(list) => list.back().map(|lease| lease.expires),
            Kept::Many(trees) => trees.costs.keys().next_back().map(|(expires, _)| *expires),
        }
    }

    /// One more, whose id is not there yet. A clock that went back, or a lease of another length, may
    /// come out of order.
    pub(super) fn insert(&mut self, lease: Lease) {
        self.total += u128::from(lease.cost);
        match &mut self.kept {
            Kept::Few(list) => {
                let key = (lease.expires, lease.id);
                let place = list.partition_point(|other| (other.expires, other.id) <= key);
                list.insert(place, lease);
                if list.len() > FEW {
                    self.kept = Kept::Many(Box::new(list.iter().copied().collect()));
                }
            }
            Kept::Many(trees) => trees.insert(lease),
        }
    }

    /// Takes out the lease of an id.
    pub(super) fn take(&mut self, id: u64) -> Option<Lease> {
        let lease = match &mut self.kept {
            Kept::Few(list) => {
                let place = list.iter().position(|lease| lease.id == id)?;
                list.remove(place)?
            }
            Kept::Many(trees) => {
                let expires = trees.ends.remove(&id)?;
                let cost = trees.costs.remove(&(expires, id))?;
                Lease { id, cost, expires }
            }
        };
        self.total -= u128::from(lease.cost);
        self.shrink();
        Some(lease)
    }

    pub(super) fn forget_expired(&mut self, now: Time) {
        while let Some(cost) = self.kept.pop_expired(now) {
            self.total -= u128::from(cost);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if let Kept::Many(trees) = &self.kept
            && trees.costs.len() <= FEW_AGAIN
        {
            self.kept = Kept::Few(self.leases().collect());
        }
    }
}

impl Kept {
    /// The cost of one that has run out, and is gone with that.
    fn pop_expired(&mut self, now: Time) -> Option<u64> {
        match self {
            Kept::Few(list) => {
                list.front().filter(|lease| lease.expires <= now)?;
                list.pop_front().map(|lease| lease.cost)
            }
            Kept::Many(trees) => {
                let first = trees.costs.first_entry().filter(|it| it.key().0 <= now)?;
                let ((_, id), cost) = first.remove_entry();
                trees.ends.remove(&id);
                Some(cost)
            }
        }
    }
}

impl Trees {
    fn insert(&mut self, Lease { id, cost, expires }: Lease) {
        self.costs.insert((expires, id), cost);
        self.ends.insert(id, expires);
    }
}

impl FromIterator<Lease> for Trees {
    fn from_iter<I: IntoIterator<Item = Lease>>(leases: I) -> Trees {
        let mut trees = Trees::default();
        leases.into_iter().for_each(|lease| trees.insert(lease));
        trees
    }
}

impl FromIterator<Lease> for ConcurrencyState {
    fn from_iter<I: IntoIterator<Item = Lease>>(leases: I) -> ConcurrencyState {
        let mut state = ConcurrencyState::default();
        leases.into_iter().for_each(|lease| state.insert(lease));
        state
    }
}

/// The same leases are the same state, however they are kept.
impl PartialEq for ConcurrencyState {
    fn eq(&self, other: &ConcurrencyState) -> bool {
        self.leases().eq(other.leases())
    }
}

impl Eq for ConcurrencyState {}

/// Leases in their order.
enum InOrder<'s> {
    Few(vec_deque::Iter<'s, Lease>),
    Many(btree_map::Iter<'s, (Time, u64), u64>),
}

impl Iterator for InOrder<'_> {
    type Item = Lease;

    fn next(&mut self) -> Option<Lease> {
        match self {
            InOrder::Few(leases) => leases.next().copied(),
            InOrder::Many(costs) => {
                costs.next().map(|(&(expires, id), &cost)| Lease { id, cost, expires })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            InOrder::Few(leases) => leases.size_hint(),
            InOrder::Many(costs) => costs.size_hint(),
        }
    }
}

impl ExactSizeIterator for InOrder<'_> {}
