//! Refuses requests on counters that are known to be exhausted, without asking the store.
//!
//! When the store refuses a request, its states are cached until the request could pass. Until
//! then, a request that these states refuse gets the verdict that the store would give, since other
//! nodes can only have spent more. The time of the decision is never behind the store's, so a
//! request that would pass there is not refused here. There is one exception: units that *other*
//! nodes give back or reset early are seen when the time to retry has come. Units that this node
//! gives back are seen at once.
//!
//! Limits that count refusals are not cached, nor are limits on concurrency, where permits may come
//! back at any time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use smallvec::SmallVec;
use tollgate::state::State;
use tollgate::{Action, Check, CounterId, Retry, Span, StoreCall, Time, Verdicts};

use crate::backend::Backend;
use crate::local::counter_name::CounterName;
use crate::local::decision::{counts_denied, current_verdict, limits_concurrency, try_take};
use crate::local::sharded_table::{SHARDS, Shard, ShardedTable};
use crate::strict::{Outcome, names_a_counter_twice};

/// The maximum number of cached states.
const MAX_STATES: usize = 1 << 16;
/// The maximum length of a cached log.
const MAX_LOG_ENTRIES: usize = 256;
/// The longest time for which a reply is under way. Units given back later than that after a reply were
/// given back before the store's clock stepped back.
const MAX_IN_FLIGHT: Span = Span::from_secs(60);
/// The time for which a cost above the capacity is cached.
const NEVER_PASSES_FOR: Span = Span::from_secs(1);

/// The states of counters when the store refused a request.
#[derive(Debug)]
pub(crate) struct RefusalCache {
    shards: ShardedTable<CachedRefusal>,
    count: AtomicUsize,
    /// The last time this node gave units back to a counter of each shard, in nanoseconds. Older
    /// states are not cached.
    given_back: [AtomicU64; SHARDS],
}

#[derive(Debug)]
struct CachedRefusal {
    state: Option<State>,
    /// The time of the refusal. If the store's clock shows less, it has stepped back, and the times of
    /// the state mean nothing.
    since: Time,
    /// The time at which the refused request could pass.
    until: Time,
    carried: Carried,
}

/// The counter that a state was carried over from, and when: after another change the entry is
/// stale.
type Carried = Option<(CounterId, Time)>;

fn carried(check: &Check<'_>) -> Carried {
    check.previous.map(|previous| (previous.counter, previous.until))
}

impl RefusalCache {
    pub(crate) fn new() -> RefusalCache {
        RefusalCache {
            shards: ShardedTable::new(MAX_STATES),
            count: AtomicUsize::new(0),
            given_back: [const { AtomicU64::new(0) }; SHARDS],
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.each().map(|shard| shard.len()).sum()
    }

    /// Returns the verdicts on a take, if the cache refuses it.
    pub(crate) fn refusal(
        &self,
        backend: &impl Backend,
        checks: &[Check<'_>],
        max_wait: Span,
    ) -> Option<Verdicts> {
        if self.count.load(Ordering::Relaxed) == 0 || checks.is_empty() {
            return None;
        }
        let mut entry: SmallVec<[(Option<State>, Time); 4]> = SmallVec::new();
        for check in checks {
            let now = backend.latest(check)?;
            entry.push((self.cached(check, now)?, now));
        }
        if names_a_counter_twice(checks) {
            return None;
        }
        let judge = |(check, (state, now)): (_, &(_, Time))| try_take(check, state, *now, max_wait);
        let mut verdicts: Verdicts = checks.iter().zip(&entry).map(judge).collect();
        if verdicts.iter().all(|verdict| verdict.allowed) {
            return None;
        }
        for ((verdict, check), (state, now)) in verdicts.iter_mut().zip(checks).zip(&entry) {
            if verdict.allowed {
                *verdict = current_verdict(check, state, *now);
            }
        }
        Some(verdicts)
    }

    fn cached(&self, check: &Check<'_>, now: Time) -> Option<Option<State>> {
        let name = CounterName::from_check(check)?;
        let mut shard = self.shards.shard(&name);
        let entry = shard.get(&name)?;
        if entry.until > now && entry.since <= now && entry.carried == carried(check) {
            return Some(entry.state.clone());
        }
        shard.remove(&name);
        self.count.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Updates the cache with the outcome of a call.
    pub(crate) fn record(&self, call: StoreCall<'_>, outcome: &Outcome) {
        match call.action {
            Action::Try { .. } | Action::Peek => {}
            Action::Take { .. } => match outcome.verdicts.iter().all(|verdict| verdict.allowed) {
                true => self.forget(call.checks),
                false => self.remember(call.checks, outcome),
            },
            Action::Spend => self.forget(call.checks),
            _ => {
                for name in call.checks.iter().filter_map(CounterName::from_check) {
                    self.give_back(self.shards.number(&name), outcome.now);
                }
                self.forget(call.checks);
            }
        }
    }

    /// Records that units were given back to a counter of a shard.
    fn give_back(&self, shard: usize, at: Time) {
        let latest = |known: u64| match Time::from_nanos(known) > at + MAX_IN_FLIGHT {
            true => at.as_nanos(), // The clock has stepped back.
            false => known.max(at.as_nanos()),
        };
        let shard = &self.given_back[shard];
        let _ =
            shard.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| Some(latest(known)));
    }

    fn remember(&self, checks: &[Check<'_>], outcome: &Outcome) {
        let known =
            |check: &Check<'_>| !counts_denied(check.limit) && !limits_concurrency(check.limit);
        let until = outcome.verdicts.iter().filter(|verdict| !verdict.allowed);
        let until = until.map(|verdict| match verdict.retry {
            Retry::After(span) => outcome.now + span,
            Retry::Now | Retry::Never => outcome.now + NEVER_PASSES_FOR,
        });
        let Some(until) = until.max() else { return };
        let small = outcome.states.iter().all(is_small);
        if !small || !checks.iter().all(known) {
            return self.forget(checks);
        }
        for (check, state) in checks.iter().zip(&outcome.states) {
            let Some(name) = CounterName::from_check(check) else { continue };
            let (state, since) = (state.clone(), outcome.now);
            let entry = CachedRefusal { state, since, until, carried: carried(check) };
            let given_back = &self.given_back[self.shards.number(&name)];
            let mut shard = self.shards.shard(&name);
            let given_back = Time::from_nanos(given_back.load(Ordering::Relaxed));
            if outcome.now <= given_back && given_back <= outcome.now + MAX_IN_FLIGHT {
                continue;
            }
            if !shard.contains_key(&name) && !self.shards.has_capacity(&shard) {
                self.evict(&mut shard, outcome.now);
            }
            if shard.insert(name, entry).is_none() {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Removes expired entries, or else any: it costs one more call to the store.
    fn evict(&self, shard: &mut Shard<CachedRefusal>, now: Time) {
        let before = shard.len();
        shard.retain(|_, entry| entry.until > now);
        if !self.shards.has_capacity(shard)
            && let Some(any) = shard.keys().next().cloned()
        {
            shard.remove(&any);
        }
        self.count.fetch_sub(before - shard.len(), Ordering::Relaxed);
    }

    /// Clears the cache after another node gave units back to an unknown counter.
    pub(crate) fn forget_all(&self, given_back_at: Time) {
        (0..SHARDS).for_each(|shard| self.give_back(shard, given_back_at));
        for mut shard in self.shards.each() {
            self.count.fetch_sub(shard.len(), Ordering::Relaxed);
            shard.clear();
        }
    }

    fn forget(&self, checks: &[Check<'_>]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for name in checks.iter().filter_map(CounterName::from_check) {
            if self.shards.shard(&name).remove(&name).is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn is_small(state: &Option<State>) -> bool {
    match state {
        Some(State::SlidingLog(log) | State::SlidingSlots(log)) => {
            log.entries().len() <= MAX_LOG_ENTRIES
        }
        _ => true,
    }
}
