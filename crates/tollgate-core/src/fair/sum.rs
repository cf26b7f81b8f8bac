//! What all shares hold together, without looking at each of them.
//!
//! A share is either *full* and holds the most it may, or it is *growing* with what is gained. Of the
//! full ones the sum of what they hold is kept, of the growing ones the sum of when they began: at any
//! time they hold `gained` each, less that. A queue says who is full next. So a request changes one
//! share, time moves those it has filled, and only a change of what all may hold counts anew.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use super::{Fair, FairState, MAX_SHARES, Share};

/// Entries that say too early when a share is full stay in the queue until it is their turn. Of more
/// than this, it is made anew.
const LONGEST_QUEUE: usize = 4 * MAX_SHARES;

/// Of sums only the lowest bits are kept: their differences are exact all the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    /// What a share may hold by its part, for which all of this was counted; none if it was not.
    part: Option<u128>,
    full: u128,
    growing: u128,
    begun: u128,
    /// Who is full when so much was gained, at the earliest.
    queue: BinaryHeap<Reverse<(u128, u64)>>,
}

/// How a share is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// What it holds; none while it grows.
    full: Option<u128>,
    /// Its latest entry in the queue.
    queued: Option<u128>,
}

impl Counted {
    pub(super) const NOT: Counted = Counted { full: None, queued: None };
}

impl Sum {
    /// Shares came, left or were cut: they are counted when the sum is needed.
    pub(super) fn forget(&mut self) {
        self.part = None;
    }

    fn total(&self, gained: u128) -> u128 {
        self.growing.wrapping_mul(gained).wrapping_sub(self.begun).wrapping_add(self.full)
    }

    fn add(&mut self, share: &mut Share, gained: u128, most: u128) {
        if gained - share.since >= most {
            share.counted.full = Some(most);
            self.full = self.full.wrapping_add(most);
            return;
        }
        share.counted.full = None;
        self.growing += 1;
        self.begun = self.begun.wrapping_add(share.since);
        let full_at = share.since.saturating_add(most);
        if share.counted.queued.is_none_or(|queued| full_at < queued) {
            share.counted.queued = Some(full_at);
            self.queue.push(Reverse((full_at, share.tenant)));
        }
    }

    fn remove(&mut self, share: &Share) {
        match share.counted.full {
            Some(most) => self.full = self.full.wrapping_sub(most),
            None => {
                self.growing -= 1;
                self.begun = self.begun.wrapping_sub(share.since);
            }
        }
    }
}

impl Fair {
    /// What all shares hold together, but for one.
    pub(super) fn promised_beside(&self, state: &mut FairState, index: usize) -> u128 {
        self.count(state);
        let (share, gained) = (&state.shares[index], state.gained);
        let held = share.counted.full.unwrap_or(gained - share.since);
        state.sum.total(gained).wrapping_sub(held)
    }

    /// Changes a share, and what is known of all of them.
    pub(super) fn change(
        &self,
        state: &mut FairState,
        index: usize,
        change: impl FnOnce(&mut Share),
    ) {
        let FairState { shares, sum, gained, .. } = state;
        let share = &mut shares[index];
        let Some(part) = sum.part else { return change(share) };
        sum.remove(share);
        change(share);
        sum.add(share, *gained, part.max(self.parts(share.cost)));
        if sum.queue.len() > LONGEST_QUEUE {
            sum.forget();
        }
    }

    /// Moves those that are full by now, or counts everybody.
    fn count(&self, state: &mut FairState) {
        let part = self.most_of(state.shares.len(), 0);
        let FairState { shares, sum, gained, .. } = state;
        if sum.part != Some(part) {
            sum.queue.clear();
            let queue = core::mem::take(&mut sum.queue);
            *sum = Sum { part: Some(part), queue, ..Sum::default() };
            for share in shares {
                share.counted = Counted::NOT;
                sum.add(share, *gained, part.max(self.parts(share.cost)));
            }
            return;
        }
        while let Some(Reverse((at, tenant))) = sum.queue.peek().copied()
            && at <= *gained
        {
            sum.queue.pop();
            let Ok(index) = shares.binary_search_by_key(&tenant, |share| share.tenant) else {
                continue;
            };
            let share = &mut shares[index];
            if share.counted.queued == Some(at) {
                share.counted.queued = None;
                // It may have been emptied since, and grow until later.
                sum.remove(share);
                sum.add(share, *gained, part.max(self.parts(share.cost)));
            }
        }
    }
}
