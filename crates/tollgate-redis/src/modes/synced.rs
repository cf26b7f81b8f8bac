//! Synced: decisions here, on a state of this node's own; what was spent is told to the store at
//! intervals, in batches, and the state that comes back, with what was spent meanwhile, is the next
//! one here.
//!
//! Any limit but those on concurrency, which are decided at the store. The first request on a key
//! asks the store, and so do keys beyond the number that a node keeps.
//!
//! # Over by how much
//!
//! A node does not see what others admit until they have told of it and it has asked: two intervals
//! at most. So `n` nodes admit at most `limit + (n - 1) * min(capacity, what one node admits in two
//! intervals)`: in a fixed window, and likewise in any interval `t` of a token bucket with
//! `limit = B + r * t`. [`Synced::widest`] is the capacity for the metric.
//!
//! While the store is away, nodes go on deciding on what they know, each for itself. What they
//! could not tell is kept as one sum for each key, never as a queue; what has come back by the time
//! the store is there again is not told any more, and nothing of one window is told in the next.
//! A push whose answer got lost may have been counted, so it is not repeated: nobody is charged
//! twice, and the overshoot may be larger by that one push.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::state::{self, State};
use tollgate::{Action, Check, Engine, Limit, StoreErrorKind, Time, Verdict, Verdicts};

use super::batch::{Item, run_all};
use super::judge::{act, counts_denied, is_held, stands};
use super::name::Name;
use super::shards::Shards;
use super::truth::Truth;

/// So many keys are kept at most; others are decided at the store.
const MOST: usize = 1 << 16;
/// A key that nobody asks for is dropped after so many intervals.
const IDLE: u32 = 20;

/// States of this node's own.
#[derive(Debug)]
pub(crate) struct Synced<T> {
    truth: Arc<T>,
    table: Shards<Entry>,
    /// The largest capacity among the limits that are synced.
    widest: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    limit: Arc<Limit>,
    state: Option<State>,
    /// What was spent, less what was given back, since the store was last told.
    untold: i64,
    /// Some of that is older than an interval.
    late: bool,
    /// Somebody asked since the last exchange.
    asked: bool,
    idle: u32,
}

impl Entry {
    /// Nothing of one window is told in the next.
    fn roll(&mut self, now: Time) {
        let live = |state: &State| state::is_live(state, &self.limit, now);
        let is_window = matches!(self.limit.engine(), Engine::FixedWindow(_));
        if is_window && self.untold != 0 && !self.state.as_ref().is_some_and(live) {
            self.untold = 0;
        }
    }

    fn act(&mut self, action: Action, check: &Check<'_>, now: Time) -> Verdict {
        act(action, check, &mut self.state, now)
    }

    fn tell(&mut self, action: Action, cost: u64) {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        self.untold = match action {
            Action::Refund => self.untold.saturating_sub(cost),
            _ => self.untold.saturating_add(cost),
        };
    }

    /// What to tell the store now.
    fn due(&mut self, name: &Name, now: Time) -> i64 {
        self.roll(now);
        let told = match self.late && self.untold > 0 {
            false => self.untold,
            // What has come back meanwhile was not spent as far as anybody can see.
            true => {
                let check = name.check(&self.limit, 0);
                let remaining = act(Action::Peek, &check, &mut self.state.clone(), now).remaining;
                let used = self.limit.capacity().saturating_sub(remaining);
                match remaining {
                    0 => self.untold,
                    _ => self.untold.min(i64::try_from(used).unwrap_or(i64::MAX)),
                }
            }
        };
        (self.untold, self.late) = (0, false);
        told
    }
}

/// Whether a limit can be synced.
pub(crate) fn can_sync(limit: &Limit) -> bool {
    !is_held(limit) && !matches!(limit.engine(), Engine::Unlimited)
}

impl<T: Truth> Synced<T> {
    pub(crate) fn new(truth: Arc<T>) -> Synced<T> {
        Synced { truth, table: Shards::new(MOST), widest: AtomicU64::new(0) }
    }

    /// Whether this node has a state of its own for a check.
    pub(crate) fn has(&self, check: &Check<'_>) -> bool {
        let Some(name) = Name::of(check) else { return false };
        let shard = self.table.of(&name);
        let same = |entry: &Entry| *entry.limit == *check.limit;
        shard.get(&name).is_some_and(same) && self.truth.latest(check).is_some()
    }

    /// Does to the states what the action says; none if one of them is not there any more.
    pub(crate) fn run(&self, action: Action, checks: &[Check<'_>]) -> Option<Verdicts> {
        let names: SmallVec<[Name; 4]> = checks.iter().filter_map(Name::of).collect();
        let mut held = self.table.of_all(&names);
        let mut times: SmallVec<[Time; 4]> = SmallVec::new();
        for (name, check) in names.iter().zip(checks) {
            let now = self.truth.latest(check)?;
            let entry = held.get(name)?;
            entry.roll(now);
            entry.asked = true;
            times.push(now);
        }
        if names.len() != checks.len() {
            return None;
        }
        let mut before: SmallVec<[Option<State>; 4]> = SmallVec::new();
        let mut verdicts = Verdicts::new();
        for ((name, check), now) in names.iter().zip(checks).zip(&times) {
            let entry = held.get(name)?;
            before.push(entry.state.clone());
            verdicts.push(entry.act(action, check, *now));
        }
        let is_take = matches!(action, Action::Take { .. });
        let passes = !is_take || verdicts.iter().all(|verdict| verdict.allowed);
        for (i, (name, check)) in names.iter().zip(checks).enumerate().rev() {
            let entry = held.get(name)?;
            let counted = !passes && !verdicts[i].allowed && counts_denied(check.limit);
            if !passes && !counted {
                entry.state = before[i].take();
                if verdicts[i].allowed {
                    verdicts[i] = stands(check, &entry.state, times[i]);
                }
            }
            let told = !matches!(action, Action::Try { .. } | Action::Peek);
            if told && (passes || counted) {
                entry.tell(action, check.cost);
            }
        }
        Some(verdicts)
    }

    /// How a counter stands, in a request that is refused elsewhere.
    pub(crate) fn stands(&self, check: &Check<'_>) -> Option<Verdict> {
        let (name, now) = (Name::of(check)?, self.truth.latest(check)?);
        let shard = self.table.of(&name);
        Some(stands(check, &shard.get(&name)?.state, now))
    }

    /// Decides on a key here from now on, given its state at the store.
    pub(crate) fn adopt(&self, check: &Check<'_>, state: &Option<State>) {
        let Some(name) = Name::of(check) else { return };
        let mut shard = self.table.of(&name);
        let other = |entry: &Entry| *entry.limit != *check.limit;
        if shard.get(&name).map_or(!self.table.has_room(&shard), |entry| !other(entry)) {
            return;
        }
        self.widest.fetch_max(check.limit.capacity(), Ordering::Relaxed);
        let (limit, state) = (Arc::new(check.limit.clone()), state.clone());
        let entry = Entry { limit, state, untold: 0, late: false, asked: true, idle: 0 };
        shard.insert(name, entry);
    }

    /// Forgets what this node knows of a counter.
    pub(crate) fn drop(&self, check: &Check<'_>) {
        if let Some(name) = Name::of(check) {
            self.table.of(&name).remove(&name);
        }
    }

    /// The largest capacity among the limits that are synced; 0 if there are none.
    pub(crate) fn widest(&self) -> u64 {
        self.widest.load(Ordering::Relaxed)
    }

    /// Tells the store what was spent, and learns how the counters stand.
    pub(crate) async fn exchange(&self) {
        let (mut spend, mut refund, mut look) = (Vec::new(), Vec::new(), Vec::new());
        let mut widest = 0;
        for mut shard in self.table.each() {
            shard.retain(|name, entry| {
                let asked = std::mem::take(&mut entry.asked);
                entry.idle = if asked || entry.untold != 0 { 0 } else { entry.idle + 1 };
                if entry.idle > IDLE {
                    return false;
                }
                widest = widest.max(entry.limit.capacity());
                if entry.idle > 0 {
                    return true;
                }
                let now = self.truth.latest(&name.check(&entry.limit, 0)).unwrap_or_default();
                let told = entry.due(name, now);
                let to = match told {
                    0 => &mut look,
                    told if told > 0 => &mut spend,
                    _ => &mut refund,
                };
                let (limit, cost) = (entry.limit.clone(), told.unsigned_abs());
                to.push(Item { name: name.clone(), limit, cost });
                true
            });
        }
        self.widest.store(widest, Ordering::Relaxed);
        let all = [(Action::Spend, spend), (Action::Refund, refund), (Action::Peek, look)];
        let run =
            |(action, items)| async move { (action, run_all(&*self.truth, action, items).await) };
        for (action, answers) in join_all(all.map(run)).await {
            for (items, outcome) in answers {
                match outcome {
                    Ok(outcome) => {
                        for (item, state) in items.iter().zip(outcome.states) {
                            self.learned(item, state);
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "what was spent here is told later");
                        items.iter().for_each(|item| self.untold(action, item, error.kind()));
                    }
                }
            }
        }
    }

    /// The state at the store; what was spent since comes on top.
    fn learned(&self, item: &Item, state: Option<State>) {
        let mut shard = self.table.of(&item.name);
        let Some(entry) = shard.get_mut(&item.name) else { return };
        entry.state = state;
        let action = if entry.untold < 0 { Action::Refund } else { Action::Spend };
        let check = item.name.check(&item.limit, entry.untold.unsigned_abs());
        if let Some(now) = self.truth.latest(&check)
            && entry.untold != 0
        {
            entry.act(action, &check, now);
        }
    }

    /// The store could not be told, and what it was not told is part of what comes next.
    fn untold(&self, action: Action, item: &Item, kind: StoreErrorKind) {
        let mut shard = self.table.of(&item.name);
        let Some(entry) = shard.get_mut(&item.name) else { return };
        entry.asked = true;
        if action == Action::Peek || is_unknown(kind) {
            return;
        }
        entry.tell(action, item.cost);
        entry.late = true;
    }
}

/// Whether a call that failed so may have been executed.
fn is_unknown(kind: StoreErrorKind) -> bool {
    !matches!(kind, StoreErrorKind::Refused | StoreErrorKind::Resting)
}
