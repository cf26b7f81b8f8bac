//! The leases of one key, ordered by expiry and found by id.
//!
//! Few leases are a list, which is the fastest to search. With ten thousand in flight every request
//! would search ten thousand, so many leases are two trees.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque, btree_map, vec_deque};

use super::Lease;
use crate::Time;

/// The most leases in a list; more are moved to trees.
const MAX_LIST: usize = 256;
/// The number of leases at which trees become a list again.
///
/// The number is far below [`MAX_LIST`], so that a state does not alternate between the two.
const SHRINK_TO_LIST: usize = 64;
/// The most bytes that a lease takes in trees: nodes of 280 and 192 bytes hold five or more entries.
const TREE_BYTES: usize = 104;

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
    storage: LeaseStorage,
    /// The cost of all leases, wide enough that no sum overflows.
    total: u128,
}

/// Leases ordered by expiry, and by id where they expire together.
#[derive(Clone, Debug)]
enum LeaseStorage {
    List(VecDeque<Lease>),
    Trees(Box<LeaseTrees>),
}

/// Many leases, indexed by expiry and by id.
#[derive(Clone, Debug, Default)]
struct LeaseTrees {
    /// Costs by expiry and id.
    costs: BTreeMap<(Time, u64), u64>,
    /// Expiries by id.
    expiries: BTreeMap<u64, Time>,
}

impl Default for LeaseStorage {
    fn default() -> LeaseStorage {
        LeaseStorage::List(VecDeque::new())
    }
}

impl ConcurrencyState {
    /// Returns the leases, the one that expires first leading.
    ///
    /// The result includes expired leases that have not been removed yet.
    pub fn leases(&self) -> impl ExactSizeIterator<Item = Lease> {
        match &self.storage {
            LeaseStorage::List(list) => LeasesByExpiry::List(list.iter()),
            LeaseStorage::Trees(trees) => LeasesByExpiry::Trees(trees.costs.iter()),
        }
    }

    /// Returns the bytes that the leases take on the heap, unused capacity included.
    ///
    /// For many leases, which are in trees, this is the most that they can take.
    ///
    /// ```
    /// use tollgate_core::{ConcurrencyState, Lease, Time};
    /// let leases = (0..1_000).map(|id| Lease { id, cost: 1, expires: Time::from_nanos(id) });
    /// let state: ConcurrencyState = leases.collect();
    /// assert_eq!(state.heap_bytes(), 104_000);
    /// ```
    pub fn heap_bytes(&self) -> usize {
        match &self.storage {
            LeaseStorage::List(list) => list.capacity() * size_of::<Lease>(),
            LeaseStorage::Trees(trees) => trees.costs.len() * TREE_BYTES,
        }
    }

    /// Returns the cost of all leases.
    pub(super) fn total(&self) -> u128 {
        self.total
    }

    /// Returns when the last lease expires.
    pub(super) fn last_expiry(&self) -> Option<Time> {
        match &self.storage {
            LeaseStorage::List(list) => list.back().map(|lease| lease.expires),
            LeaseStorage::Trees(trees) => {
                trees.costs.keys().next_back().map(|(expires, _)| *expires)
            }
        }
    }

    /// Adds a lease with a new id.
    ///
    /// The lease may belong before others, if the clock went back or leases have different lengths.
    pub(super) fn insert(&mut self, lease: Lease) {
        self.total += u128::from(lease.cost);
        match &mut self.storage {
            LeaseStorage::List(list) => {
                let key = (lease.expires, lease.id);
                let index = list.partition_point(|other| (other.expires, other.id) <= key);
                list.insert(index, lease);
                if list.len() > MAX_LIST {
                    self.storage = LeaseStorage::Trees(Box::new(list.iter().copied().collect()));
                }
            }
            LeaseStorage::Trees(trees) => trees.insert(lease),
        }
    }

    /// Removes and returns the lease of `id`.
    pub(super) fn take(&mut self, id: u64) -> Option<Lease> {
        let lease = match &mut self.storage {
            LeaseStorage::List(list) => {
                let index = list.iter().position(|lease| lease.id == id)?;
                list.remove(index)?
            }
            LeaseStorage::Trees(trees) => {
                let expires = trees.expiries.remove(&id)?;
                let cost = trees.costs.remove(&(expires, id))?;
                Lease { id, cost, expires }
            }
        };
        self.total -= u128::from(lease.cost);
        self.shrink();
        Some(lease)
    }

    pub(super) fn forget_expired(&mut self, now: Time) {
        while let Some(cost) = self.storage.pop_expired(now) {
            self.total -= u128::from(cost);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if let LeaseStorage::Trees(trees) = &self.storage
            && trees.costs.len() <= SHRINK_TO_LIST
        {
            self.storage = LeaseStorage::List(self.leases().collect());
        }
    }
}

impl LeaseStorage {
    /// Removes the first lease if it has expired, and returns its cost.
    fn pop_expired(&mut self, now: Time) -> Option<u64> {
        match self {
            LeaseStorage::List(list) => {
                list.front().filter(|lease| lease.expires <= now)?;
                list.pop_front().map(|lease| lease.cost)
            }
            LeaseStorage::Trees(trees) => {
                let first = trees.costs.first_entry().filter(|entry| entry.key().0 <= now)?;
                let ((_, id), cost) = first.remove_entry();
                trees.expiries.remove(&id);
                Some(cost)
            }
        }
    }
}

impl LeaseTrees {
    fn insert(&mut self, Lease { id, cost, expires }: Lease) {
        self.costs.insert((expires, id), cost);
        self.expiries.insert(id, expires);
    }
}

impl FromIterator<Lease> for LeaseTrees {
    fn from_iter<I: IntoIterator<Item = Lease>>(leases: I) -> LeaseTrees {
        let mut trees = LeaseTrees::default();
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

/// States are equal if their leases are, in a list or in trees.
impl PartialEq for ConcurrencyState {
    fn eq(&self, other: &ConcurrencyState) -> bool {
        self.leases().eq(other.leases())
    }
}

impl Eq for ConcurrencyState {}

/// An iterator over leases in the order of their expiry.
enum LeasesByExpiry<'s> {
    List(vec_deque::Iter<'s, Lease>),
    Trees(btree_map::Iter<'s, (Time, u64), u64>),
}

impl Iterator for LeasesByExpiry<'_> {
    type Item = Lease;

    fn next(&mut self) -> Option<Lease> {
        match self {
            LeasesByExpiry::List(leases) => leases.next().copied(),
            LeasesByExpiry::Trees(costs) => {
                costs.next().map(|(&(expires, id), &cost)| Lease { id, cost, expires })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            LeasesByExpiry::List(leases) => leases.size_hint(),
            LeasesByExpiry::Trees(costs) => costs.size_hint(),
        }
    }
}

impl ExactSizeIterator for LeasesByExpiry<'_> {}
