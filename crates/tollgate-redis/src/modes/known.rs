//! Counters known to be exhausted: who asks for more than there is, is refused without asking.
//!
//! When the store refuses a request, the states it told of are kept until the request could pass.
//! Until then a request that those states refuse is answered from here, in the same words: others
//! can only have spent more since. The time it is judged at is never behind the store's, so nobody
//! is refused here who would pass there, with one exception: what *other* nodes give back or reset
//! early is seen when the time to retry has come. What this node gives back is seen at once.
//!
//! Not for limits that count refusals, and not for those on concurrency, where a holder may leave
//! at any time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use smallvec::SmallVec;
use tollgate::state::State;
use tollgate::{Action, Bucket, Call, Check, Retry, Span, Time, Verdicts};

use super::judge::{counts_denied, is_held, stands, tried};
use super::name::Name;
use super::shards::{SHARDS, Shard, Shards};
use super::truth::Truth;
use crate::strict::{Outcome, names_one_twice};

/// How many states are kept at most.
const MOST: usize = 1 << 16;
/// A log with more entries than this is not kept.
const LONGEST_LOG: usize = 256;
/// How long to remember what can never pass: it is refused by its cost alone.
const NEVER: Span = Span::from_secs(1);

/// States of counters, as the store told of them when it refused.
#[derive(Debug)]
pub(crate) struct Known {
    shards: Shards<Told>,
    count: AtomicUsize,
    /// When this node last gave something back to a counter of each shard, by the store's clock, in
    /// nanoseconds: what was told before is no longer known.
    given_back: [AtomicU64; SHARDS],
}

#[derive(Debug)]
struct Told {
    state: Option<State>,
    /// By then the request that was refused could pass.
    until: Time,
    carried: Carried,
}

/// From where a counter was carried over, and when: after another change nothing is known of it.
type Carried = Option<(Bucket, Time)>;

fn carried(check: &Check<'_>) -> Carried {
    check.former.map(|former| (former.bucket, former.until))
}

impl Known {
    pub(crate) fn new() -> Known {
        Known {
            shards: Shards::new(MOST),
            count: AtomicUsize::new(0),
            given_back: [const { AtomicU64::new(0) }; SHARDS],
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.each().map(|shard| shard.len()).sum()
    }

    /// The answer to a take, if it is known to be a refusal.
    pub(crate) fn refusal(
        &self,
        truth: &impl Truth,
        checks: &[Check<'_>],
        max_wait: Span,
    ) -> Option<Verdicts> {
        if self.count.load(Ordering::Relaxed) == 0 || checks.is_empty() {
            return None;
        }
        let mut told: SmallVec<[(Option<State>, Time); 4]> = SmallVec::new();
        for check in checks {
            let now = truth.latest(check)?;
            told.push((self.told(check, now)?, now));
        }
        if names_one_twice(checks) {
            return None;
        }
        let judge = |(check, (state, now)): (_, &(_, Time))| tried(check, state, *now, max_wait);
        let mut verdicts: Verdicts = checks.iter().zip(&told).map(judge).collect();
        if verdicts.iter().all(|verdict| verdict.allowed) {
            return None;
        }
        for ((verdict, check), (state, now)) in verdicts.iter_mut().zip(checks).zip(&told) {
            if verdict.allowed {
                *verdict = stands(check, state, *now);
            }
        }
        Some(verdicts)
    }

    fn told(&self, check: &Check<'_>, now: Time) -> Option<Option<State>> {
        let name = Name::of(check)?;
        let mut shard = self.shards.of(&name);
        let told = shard.get(&name)?;
        if told.until > now && told.carried == carried(check) {
            return Some(told.state.clone());
        }
        shard.remove(&name);
        self.count.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Learns from what became of a call.
    pub(crate) fn learn(&self, call: Call<'_>, outcome: &Outcome) {
        match call.action {
            Action::Try { .. } | Action::Peek => {}
            Action::Take { .. } => match outcome.verdicts.iter().all(|verdict| verdict.allowed) {
                true => self.forget(call.checks),
                false => self.remember(call.checks, outcome),
            },
            Action::Spend => self.forget(call.checks),
            _ => {
                for name in call.checks.iter().filter_map(Name::of) {
                    let given_back = &self.given_back[self.shards.number(&name)];
                    given_back.fetch_max(outcome.now.as_nanos(), Ordering::Relaxed);
                }
                self.forget(call.checks);
            }
        }
    }

    fn remember(&self, checks: &[Check<'_>], outcome: &Outcome) {
        let known = |check: &Check<'_>| !counts_denied(check.limit) && !is_held(check.limit);
        let until = outcome.verdicts.iter().filter(|verdict| !verdict.allowed);
        let until = until.map(|verdict| match verdict.retry {
            Retry::After(span) => outcome.now + span,
            Retry::Now | Retry::Never => outcome.now + NEVER,
        });
        let Some(until) = until.max() else { return };
        let small = outcome.states.iter().all(is_small);
        if !small || !checks.iter().all(known) {
            return self.forget(checks);
        }
        for (check, state) in checks.iter().zip(&outcome.states) {
            let Some(name) = Name::of(check) else { continue };
            let told = Told { state: state.clone(), until, carried: carried(check) };
            let given_back = &self.given_back[self.shards.number(&name)];
            let mut shard = self.shards.of(&name);
            if outcome.now.as_nanos() <= given_back.load(Ordering::Relaxed) {
                continue;
            }
            if !shard.contains_key(&name) && !self.shards.has_room(&shard) {
                self.make_room(&mut shard, outcome.now);
            }
            if shard.insert(name, told).is_none() {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Those whose time is over leave, or else any: it is only asked once more.
    fn make_room(&self, shard: &mut Shard<Told>, now: Time) {
        let before = shard.len();
        shard.retain(|_, told| told.until > now);
        if !self.shards.has_room(shard)
            && let Some(any) = shard.keys().next().cloned()
        {
            shard.remove(&any);
        }
        self.count.fetch_sub(before - shard.len(), Ordering::Relaxed);
    }

    /// Somebody else gave something back: who knows to whom.
    pub(crate) fn forget_all(&self, given_back_at: Time) {
        for given_back in &self.given_back {
            given_back.fetch_max(given_back_at.as_nanos(), Ordering::Relaxed);
        }
        for mut shard in self.shards.each() {
            self.count.fetch_sub(shard.len(), Ordering::Relaxed);
            shard.clear();
        }
    }

    fn forget(&self, checks: &[Check<'_>]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for name in checks.iter().filter_map(Name::of) {
            if self.shards.of(&name).remove(&name).is_some() {
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn is_small(state: &Option<State>) -> bool {
    match state {
        Some(State::SlidingLog(log) | State::SlidingSlots(log)) => {
            log.entries().len() <= LONGEST_LOG
        }
        _ => true,
    }
}
