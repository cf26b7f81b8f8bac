//! The total that all shares hold, without a pass over each of them.
//!
//! A share is either *full* and holds the most it may, or it is *growing* with what is gained. For the
//! full shares the total is the sum of what they hold. For the growing ones it is `gained` for each,
//! less the sum of their starting points. A queue orders the growing shares by when they are full. So
//! a request updates one share, time moves the shares it has filled, and only a change of the maximum
//! needs a new count.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::{FairShares, FairSharesState, MAX_SHARES, Share};

/// The most entries of the queue before it is rebuilt. Outdated entries stay until their turn comes.
const MAX_QUEUE: usize = 4 * MAX_SHARES;

/// The total of all shares. Sums wrap, and their differences are still exact.
#[derive(Clone, Debug, Default)]
pub(super) struct PromisedTotal {
    /// The maximum of a share by which everything was counted; `None` if nothing is counted.
    part: Option<u128>,
    /// The sum of what the full shares hold.
    full: u128,
    /// The number of growing shares.
    growing: u128,
    /// The sum of the starting points of the growing shares.
    begun: u128,
    /// For each growing share, the gain at which it is full at the earliest, and its tenant.
    queue: BinaryHeap<Reverse<(u128, u64)>>,
}

/// How one share is counted in the total.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareTally {
    /// The amount the share holds; `None` while it grows.
    full: Option<u128>,
    /// The latest queue entry of the share.
    queued: Option<u128>,
}

impl ShareTally {
    pub(super) const UNCOUNTED: ShareTally = ShareTally { full: None, queued: None };
}

impl PromisedTotal {
    /// Discards the count, because shares were added, removed or cut; the next use counts again.
    pub(super) fn invalidate(&mut self) {
        self.part = None;
    }

    fn total(&self, gained: u128) -> u128 {
        self.growing.wrapping_mul(gained).wrapping_sub(self.begun).wrapping_add(self.full)
    }

    fn add(&mut self, share: &mut Share, gained: u128, max: u128) {
        if gained - share.since >= max {
            share.tally.full = Some(max);
            self.full = self.full.wrapping_add(max);
            return;
        }
        share.tally.full = None;
        self.growing += 1;
        self.begun = self.begun.wrapping_add(share.since);
        let full_at = share.since.saturating_add(max);
        if share.tally.queued.is_none_or(|queued| full_at < queued) {
            share.tally.queued = Some(full_at);
            self.queue.push(Reverse((full_at, share.tenant)));
        }
    }

    fn remove(&mut self, share: &Share) {
        match share.tally.full {
            Some(max) => self.full = self.full.wrapping_sub(max),
            None => {
                self.growing -= 1;
                self.begun = self.begun.wrapping_sub(share.since);
            }
        }
    }
}

impl FairShares {
    /// Returns what all shares but one hold together.
    pub(super) fn promised_to_others(&self, state: &mut FairSharesState, index: usize) -> u128 {
        self.count(state);
        let (share, gained) = (&state.shares[index], state.gained);
        let balance = share.tally.full.unwrap_or(gained - share.since);
        state.promised.total(gained).wrapping_sub(balance)
    }

    /// Changes a share and keeps the total up to date.
    pub(super) fn update_share(
        &self,
        state: &mut FairSharesState,
        index: usize,
        update: impl FnOnce(&mut Share),
    ) {
        let FairSharesState { shares, promised, gained, .. } = state;
        let share = &mut shares[index];
        let Some(part) = promised.part else { return update(share) };
        promised.remove(share);
        update(share);
        promised.add(share, *gained, part.max(self.parts(share.cost)));
        if promised.queue.len() > MAX_QUEUE {
            promised.invalidate();
        }
    }

    /// Moves the shares that are full by now, or counts all of them.
    fn count(&self, state: &mut FairSharesState) {
        let part = self.max_share(state.shares.len(), 0);
        let FairSharesState { shares, promised, gained, .. } = state;
        if promised.part != Some(part) {
            promised.queue.clear();
            let queue = core::mem::take(&mut promised.queue);
            *promised = PromisedTotal { part: Some(part), queue, ..PromisedTotal::default() };
            for share in shares {
                share.tally = ShareTally::UNCOUNTED;
                promised.add(share, *gained, part.max(self.parts(share.cost)));
            }
            return;
        }
        while let Some(Reverse((at, tenant))) = promised.queue.peek().copied()
            && at <= *gained
        {
            promised.queue.pop();
            let Ok(index) = shares.binary_search_by_key(&tenant, |share| share.tenant) else {
                continue;
            };
            let share = &mut shares[index];
            if share.tally.queued == Some(at) {
                share.tally.queued = None;
                // A request may have emptied the share since, so that it grows until later.
                promised.remove(share);
                promised.add(share, *gained, part.max(self.parts(share.cost)));
            }
        }
    }
}
