//! This node's shares of the limits, enforced while the store does not answer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate_core::{Carry, Time};

use crate::compile::domain::BoundLimit;
use crate::decide::overruns::Overruns;
use crate::decide::store_debts::StoreDebts;
use tollgate::{Action, Store, StoreCall};
use tollgate::{Check, Clock, CounterId, Key, MemoryStore, PreviousLimit};

/// The maximum number of cached shares. At the maximum the cache is cleared, because shares of
/// removed rules remain in it.
const MAX_CACHED_SHARES: usize = 4096;

/// The local store that decides without the shared one, and its debts to the shared one.
#[derive(Debug)]
pub(crate) struct LocalShares {
    pub(crate) store: MemoryStore,
    pub(crate) debts: StoreDebts,
    pub(crate) overruns: Overruns,
    shares: RwLock<HashMap<u64, Arc<LocalShare>>>,
}

/// This node's share of a limit.
#[derive(Debug)]
pub(crate) struct LocalShare {
    nodes: u64,
    pub(crate) whole: BoundLimit,
    pub(crate) bound: BoundLimit,
    /// The share under a previous number of nodes.
    pub(crate) previous: Option<PreviousLimit>,
}

impl LocalShares {
    pub(crate) fn new(clock: Clock) -> LocalShares {
        let store = MemoryStore::new().clock(clock);
        let (debts, overruns) = (StoreDebts::default(), Overruns::default());
        LocalShares { store, debts, overruns, shares: RwLock::default() }
    }

    /// Returns this node's share of a limit that `nodes` nodes share.
    pub(crate) fn share(&self, whole: &BoundLimit, nodes: u64, now: Time) -> Arc<LocalShare> {
        let number = whole.counter.number();
        let fits = |share: &&Arc<LocalShare>| share.nodes == nodes;
        if let Some(known) = self.shares.read().get(&number).filter(fits) {
            return known.clone();
        }
        let mut shares = self.shares.write();
        let previous =
            shares.get(&number).filter(|share| !fits(share)).map(|share| PreviousLimit {
                counter: share.bound.counter,
                limit: share.bound.limit.clone(),
                carry: Carry::Spent,
                until: now,
                previous: None,
            });
        let counter = CounterId::new(number ^ nodes.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bound = BoundLimit { limit: whole.limit.shared_by(nodes), counter };
        let share = Arc::new(LocalShare { nodes, whole: whole.clone(), bound, previous });
        if shares.len() >= MAX_CACHED_SHARES {
            shares.clear();
        }
        shares.insert(number, share.clone());
        share
    }

    /// Returns the share that counts on `counter`.
    pub(crate) fn share_of(&self, counter: CounterId) -> Option<Arc<LocalShare>> {
        let shares = self.shares.read();
        shares.values().find(|share| share.bound.counter == counter).cloned()
    }

    /// Returns how much of a share is spent now.
    pub(crate) async fn spent(&self, share: &LocalShare, key: &[u8]) -> u64 {
        let check = Check::new(share.bound.counter, Key::Bytes(key), &share.bound.limit, 0);
        let checks = [Check { previous: share.previous.as_ref(), ..check }];
        let peeked = self.store.run(StoreCall { action: Action::Peek, checks: &checks }).await;
        // The memory store does not fail.
        peeked.map_or(0, |verdicts| verdicts[0].limit.saturating_sub(verdicts[0].remaining))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::ready::ready;
    use tollgate::testing::ManualClock;

    #[test]
    fn spending_stays_when_the_number_of_nodes_changes() {
        let clock = ManualClock::new();
        let local = LocalShares::new((&clock).into());
        let whole = BoundLimit { limit: "12/h fixed".parse().unwrap(), counter: CounterId::new(7) };
        let take = |nodes| {
            let share = local.share(&whole, nodes, clock.now());
            let check = Check::new(share.bound.counter, "ann", &share.bound.limit, 1);
            local
                .store
                .decide_one_now(&Check { previous: share.previous.as_ref(), ..check })
                .remaining
        };
        assert_eq!([take(2), take(2)], [5, 4]);
        assert_eq!(take(3), 1);
        let share = local.share(&whole, 3, clock.now());
        assert_eq!(ready(local.spent(&share, b"ann")), 3);
        assert!(Arc::ptr_eq(&share, &local.share(&whole, 3, clock.now())), "made once");
    }
}
