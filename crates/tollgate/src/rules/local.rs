//! Limits in this process: this node's shares, enforced while the store does not answer.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate_core::{Carry, Time};

use super::compiled::Bound;
use super::overruns::Overruns;
use super::owed::Owed;
use crate::store::{Action, Call, Store};
use crate::{Bucket, Check, Clock, Former, Key, MemoryStore};

/// So many limits have their shares at hand. There are as many as rules name; those of rules that
/// are gone are forgotten with all others.
const AT_HAND: usize = 4096;

/// What decides without the store, and what it owes to it.
#[derive(Debug)]
pub(crate) struct Local {
    pub(super) store: MemoryStore,
    pub(super) owed: Owed,
    pub(super) overruns: Overruns,
    shares: RwLock<HashMap<u64, Arc<Share>>>,
}

/// This node's share of a limit.
#[derive(Debug)]
pub(super) struct Share {
    nodes: u64,
    pub(super) whole: Bound,
    pub(super) bound: Bound,
    /// The share it had when there were more nodes, or fewer.
    pub(super) former: Option<Former>,
}

impl Local {
    pub(super) fn new(clock: Clock) -> Local {
        let store = MemoryStore::new().clock(clock);
        let (owed, overruns) = (Owed::default(), Overruns::default());
        Local { store, owed, overruns, shares: RwLock::default() }
    }

    /// The share of a limit that so many nodes keep together.
    pub(super) fn share(&self, whole: &Bound, nodes: u64, now: Time) -> Arc<Share> {
        let number = whole.bucket.number();
        let fits = |share: &&Arc<Share>| share.nodes == nodes;
        if let Some(known) = self.shares.read().get(&number).filter(fits) {
            return known.clone();
        }
        let mut shares = self.shares.write();
        let former = shares.get(&number).filter(|share| !fits(share)).map(|share| Former {
            bucket: share.bound.bucket,
            limit: share.bound.limit.clone(),
            carry: Carry::Spent,
            until: now,
            former: None,
        });
        let bucket = Bucket::new(number ^ nodes.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let bound = Bound { limit: whole.limit.shared_by(nodes), bucket };
        let share = Arc::new(Share { nodes, whole: whole.clone(), bound, former });
        if shares.len() >= AT_HAND {
            shares.clear();
        }
        shares.insert(number, share.clone());
        share
    }

    /// The share with a bucket of its own.
    pub(super) fn share_of(&self, bucket: Bucket) -> Option<Arc<Share>> {
        let shares = self.shares.read();
        shares.values().find(|share| share.bound.bucket == bucket).cloned()
    }

    /// How much of a share is spent now.
    pub(super) async fn spent(&self, share: &Share, key: &[u8]) -> u64 {
        let check = Check::new(share.bound.bucket, Key::Bytes(key), &share.bound.limit, 0);
        let checks = [Check { former: share.former.as_ref(), ..check }];
        let peeked = self.store.run(Call { action: Action::Peek, checks: &checks }).await;
        // The memory store does not fail.
        peeked.map_or(0, |verdicts| verdicts[0].limit.saturating_sub(verdicts[0].remaining))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::ready;
    use crate::testing::ManualClock;

    #[test]
    fn what_is_spent_stays_spent_when_nodes_come_and_go() {
        let clock = ManualClock::new();
        let local = Local::new((&clock).into());
        let whole = Bound { limit: "12/h fixed".parse().unwrap(), bucket: Bucket::new(7) };
        let take = |nodes| {
            let share = local.share(&whole, nodes, clock.now());
            let check = Check::new(share.bound.bucket, "ann", &share.bound.limit, 1);
            local.store.decide_one(&Check { former: share.former.as_ref(), ..check }).remaining
        };
        assert_eq!([take(2), take(2)], [5, 4]);
        assert_eq!(take(3), 1);
        let share = local.share(&whole, 3, clock.now());
        assert_eq!(ready(local.spent(&share, b"ann")), 3);
        assert!(Arc::ptr_eq(&share, &local.share(&whole, 3, clock.now())), "made once");
    }
}
