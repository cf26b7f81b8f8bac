//! Synced limits: a node decides on its own state, and exchanges it with the store at intervals.
//!
//! At every interval the node pushes what it has spent, in batches, and pulls the states; what it
//! has spent meanwhile is added. All limits can be synced but those on concurrency, which are decided
//! at the store. So are the first request on a key, and keys beyond the number that a node keeps.
//!
//! # Over by how much
//!
//! A node does not see what others admit until they have pushed it and it has pulled: two intervals
//! at most. So `n` nodes admit at most `limit + (n - 1) * min(capacity, what one node admits in two
//! intervals)`: in a fixed window, and likewise in any interval `t` of a token bucket with
//! `limit = B + r * t`. [`SyncedCounters::largest_capacity`] is the capacity for the metric.
//!
//! While the store is down, each node goes on deciding on its own state. Units that it could not push
//! are one sum for each key, never a queue. Units that have refilled by the time the store is back
//! are not pushed any more, and no unit of one window is pushed into the next. A push whose reply was
//! lost may have been counted, so it is not repeated: no unit is charged twice, and the overshoot may
//! be larger by that one push.

mod synced_counter;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::state::State;
use tollgate::{Action, Check, Limit, LimitAlgorithm, StoreErrorKind, Time, Verdict, Verdicts};

use crate::backend::Backend;
use crate::local::batch::{BatchItem, run_all};
use crate::local::counter_name::CounterName;
use crate::local::decision::{counts_denied, current_verdict, limits_concurrency};
use crate::local::sharded_table::ShardedTable;
use synced_counter::SyncedCounter;

/// The maximum number of synced keys; others are decided at the store.
const MAX_COUNTERS: usize = 1 << 16;
/// The number of intervals without a request after which a key is dropped.
const IDLE_INTERVALS: u32 = 20;

/// The synced counters of a node.
#[derive(Debug)]
pub(crate) struct SyncedCounters<T> {
    backend: Arc<T>,
    table: ShardedTable<SyncedCounter>,
    /// The largest capacity of the synced limits.
    largest_capacity: AtomicU64,
}

/// Returns whether a limit can be synced.
pub(crate) fn can_sync(limit: &Limit) -> bool {
    !limits_concurrency(limit) && !matches!(limit.algorithm(), LimitAlgorithm::Unlimited)
}

impl<T: Backend> SyncedCounters<T> {
    pub(crate) fn new(backend: Arc<T>) -> SyncedCounters<T> {
        SyncedCounters {
            backend,
            table: ShardedTable::new(MAX_COUNTERS),
            largest_capacity: AtomicU64::new(0),
        }
    }

    /// Returns whether this node has a state for a check.
    pub(crate) fn has(&self, check: &Check<'_>) -> bool {
        let Some(name) = CounterName::from_check(check) else { return false };
        let shard = self.table.shard(&name);
        let same = |entry: &SyncedCounter| *entry.limit == *check.limit;
        shard.get(&name).is_some_and(same) && self.backend.latest(check).is_some()
    }

    /// Applies an action to the states of the checks; `None` if one of them was dropped.
    pub(crate) fn run(&self, action: Action, checks: &[Check<'_>]) -> Option<Verdicts> {
        let names: SmallVec<[CounterName; 4]> =
            checks.iter().filter_map(CounterName::from_check).collect();
        let mut shards = self.table.lock_all(&names);
        let mut times: SmallVec<[Time; 4]> = SmallVec::new();
        for (name, check) in names.iter().zip(checks) {
            let now = self.backend.latest(check)?;
            let entry = shards.get(name)?;
            entry.roll(now);
            entry.used = true;
            times.push(now);
        }
        if names.len() != checks.len() {
            return None;
        }
        let mut before: SmallVec<[Option<State>; 4]> = SmallVec::new();
        let mut verdicts = Verdicts::new();
        for ((name, check), now) in names.iter().zip(checks).zip(&times) {
            let entry = shards.get(name)?;
            before.push(entry.state.clone());
            verdicts.push(entry.apply(action, check, *now));
        }
        let is_take = matches!(action, Action::Take { .. });
        let passes = !is_take || verdicts.iter().all(|verdict| verdict.allowed);
        for (i, (name, check)) in names.iter().zip(checks).enumerate().rev() {
            let entry = shards.get(name)?;
            let counted = !passes && !verdicts[i].allowed && counts_denied(check.limit);
            if !passes && !counted {
                entry.state = before[i].take();
                if verdicts[i].allowed {
                    verdicts[i] = current_verdict(check, &entry.state, times[i]);
                }
            }
            let reported = !matches!(action, Action::Try { .. } | Action::Peek);
            if reported && (passes || counted) {
                entry.record(action, check.cost);
            }
        }
        Some(verdicts)
    }

    /// Returns the verdict on a counter, in a request that another check refuses.
    pub(crate) fn current_verdict(&self, check: &Check<'_>) -> Option<Verdict> {
        let (name, now) = (CounterName::from_check(check)?, self.backend.latest(check)?);
        let shard = self.table.shard(&name);
        Some(current_verdict(check, &shard.get(&name)?.state, now))
    }

    /// Starts to decide a key locally, given its state at the store.
    pub(crate) fn adopt(&self, check: &Check<'_>, state: &Option<State>, at: Time) {
        let Some(name) = CounterName::from_check(check) else { return };
        let mut shard = self.table.shard(&name);
        let other = |entry: &SyncedCounter| *entry.limit != *check.limit;
        if shard.get(&name).map_or(!self.table.has_capacity(&shard), |entry| !other(entry)) {
            return;
        }
        self.largest_capacity.fetch_max(check.limit.capacity(), Ordering::Relaxed);
        let (limit, state) = (Arc::new(check.limit.clone()), state.clone());
        let entry =
            SyncedCounter { limit, state, at, unreported: 0, late: false, used: true, idle: 0 };
        shard.insert(name, entry);
    }

    /// Forgets the state of a counter.
    pub(crate) fn drop(&self, check: &Check<'_>) {
        if let Some(name) = CounterName::from_check(check) {
            self.table.shard(&name).remove(&name);
        }
    }

    /// Returns the largest capacity of the synced limits; 0 if there are none.
    pub(crate) fn largest_capacity(&self) -> u64 {
        self.largest_capacity.load(Ordering::Relaxed)
    }

    /// Pushes what was spent to the store, and pulls the states of the counters.
    pub(crate) async fn exchange(&self) {
        let (mut spend, mut refund, mut look) = (Vec::new(), Vec::new(), Vec::new());
        let mut largest_capacity = 0;
        for mut shard in self.table.each() {
            shard.retain(|name, entry| {
                let used = std::mem::take(&mut entry.used);
                entry.idle = if used || entry.unreported != 0 { 0 } else { entry.idle + 1 };
                if entry.idle > IDLE_INTERVALS {
                    return false;
                }
                largest_capacity = largest_capacity.max(entry.limit.capacity());
                if entry.idle > 0 {
                    return true;
                }
                let now = self.backend.latest(&name.check(&entry.limit, 0)).unwrap_or_default();
                let reported = entry.take_unreported(name, now);
                let to = match reported {
                    0 => &mut look,
                    reported if reported > 0 => &mut spend,
                    _ => &mut refund,
                };
                let (limit, cost) = (entry.limit.clone(), reported.unsigned_abs());
                to.push(BatchItem { name: name.clone(), limit, cost });
                true
            });
        }
        self.largest_capacity.store(largest_capacity, Ordering::Relaxed);
        let all = [(Action::Spend, spend), (Action::Refund, refund), (Action::Peek, look)];
        let run =
            |(action, items)| async move { (action, run_all(&*self.backend, action, items).await) };
        for (action, answers) in join_all(all.map(run)).await {
            for (items, outcome) in answers {
                match outcome {
                    Ok(outcome) => {
                        for (item, state) in items.iter().zip(outcome.states) {
                            self.merge(item, state, outcome.now);
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot push what was spent; trying again at the next interval");
                        items.iter().for_each(|item| self.requeue(action, item, error.kind()));
                    }
                }
            }
        }
    }

    /// Replaces a state by that of the store, and adds what was spent since.
    fn merge(&self, item: &BatchItem, state: Option<State>, at: Time) {
        let mut shard = self.table.shard(&item.name);
        let Some(entry) = shard.get_mut(&item.name) else { return };
        (entry.state, entry.at) = (state, at);
        let action = if entry.unreported < 0 { Action::Refund } else { Action::Spend };
        let check = item.name.check(&item.limit, entry.unreported.unsigned_abs());
        if let Some(now) = self.backend.latest(&check)
            && entry.unreported != 0
        {
            entry.apply(action, &check, now);
        }
    }

    /// Adds units that could not be pushed to those of the next exchange.
    fn requeue(&self, action: Action, item: &BatchItem, kind: StoreErrorKind) {
        let mut shard = self.table.shard(&item.name);
        let Some(entry) = shard.get_mut(&item.name) else { return };
        entry.used = true;
        if action == Action::Peek || may_have_executed(kind) {
            return;
        }
        entry.record(action, item.cost);
        entry.late = true;
    }
}

/// Returns whether a call with this error may have been executed.
fn may_have_executed(kind: StoreErrorKind) -> bool {
    !matches!(kind, StoreErrorKind::Refused | StoreErrorKind::Unavailable)
}
