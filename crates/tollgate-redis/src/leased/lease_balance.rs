//! The balance of a lease: a pure state machine that neither waits nor calls the store.

use tollgate::state::State;
use tollgate::{
    Action, Check, Limit, LimitAlgorithm, Retry, Span, StoreError, StoreErrorKind, Time, Verdict,
};
use tollgate_core::{Algorithm, MeterState};

use super::chunk::{Chunk, LIFE};
use crate::local::decision::{ClockReading, apply, try_take};
use crate::strict::Outcome;

/// A chunk that is used up within this time was too small.
const QUICKLY_USED: Span = Span::from_millis(50);
/// The age at which the rest of a chunk is returned, while that is still safe.
const RETURN_AGE: Span = Span::from_millis(150);
/// The time without a request after which a counter is forgotten.
const IDLE_TIMEOUT: Span = Span::from_secs(2);
/// The minimum time between two requests to an exhausted store.
const ASK_INTERVAL: Span = Span::from_millis(10);
/// The least difference between readings of the store's clock that counts as a step back. Replies may
/// arrive in another order than they were made in.
const MIN_STEP: Span = Span::from_secs(1);
/// A chunk is at most this fraction of what is left, so that no node takes all.
const MIN_SHARES: u64 = 8;

/// The chunk of a counter, and what decides on the size of the next one.
#[derive(Debug, Default)]
pub(super) struct LeaseBalance {
    chunk: Option<Chunk>,
    /// The arrival time of the units spent by this node, a lower bound for all nodes.
    owed: MeterState,
    /// The state in the last reply of the store, if there was one.
    store_state: Option<Option<State>>,
    /// The time of the last reply, by the store's clock.
    replied_at: Time,
    /// The desired size of a chunk.
    target_size: u64,
    /// Whether the last chunk was smaller than desired, because too little was left.
    was_cut: bool,
    /// Whether the store was exhausted, and every chunk since was as large as what was left.
    saturated: bool,
    /// The time before which the store is not asked again.
    not_before: Time,
    used_at: Time,
    /// The number of failed requests to the store, and the error of the last one.
    failures: u64,
    failure: Option<(StoreErrorKind, String)>,
}

/// The next request to the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChunkPlan {
    pub(super) size: u64,
    /// Units of the current chunk that are returned first.
    pub(super) back: u64,
}

impl LeaseBalance {
    /// Decides without the store, if that is possible.
    pub(super) fn decide(
        &mut self,
        check: &Check<'_>,
        max_wait: Span,
        now: ClockReading,
        patience: Span,
    ) -> Option<Verdict> {
        self.used_at = now.local;
        self.follow_clock(now.store);
        if let Some(chunk) = &mut self.chunk
            && chunk.spend(check.cost, now)
        {
            let charged_at = chunk.charged_at;
            self.owe(check.limit, charged_at, check.cost);
            return Some(self.allowed(check.limit, now.store));
        }
        let store_state = self.store_state.as_ref()?;
        let back = self.returnable(check.limit, now, patience);
        let state = with_refund(check.limit, store_state, back, now.store);
        let verdict = try_take(check, &state, now.store, max_wait);
        // A request that may be queued does not wait for the next time to ask.
        let waits = !max_wait.min(check.patience).is_zero();
        if verdict.allowed && (waits || now.local >= self.not_before) {
            return None;
        }
        Some(self.refused(check.limit, verdict, now.local))
    }

    /// Forgets all times if the store's clock has stepped back: they would refuse requests until it
    /// has caught up. Units of the chunk refill at the store.
    fn follow_clock(&mut self, store: Time) {
        if store + MIN_STEP < self.replied_at {
            self.clear();
        }
    }

    /// Refuses a request: the store is asked again after the time to retry, and not too often.
    fn refused(&mut self, limit: &Limit, verdict: Verdict, local: Time) -> Verdict {
        if !self.saturated {
            (self.saturated, self.not_before) = (true, local + ask_interval(limit));
        }
        let pause = self.not_before.since(local);
        let retry = match verdict.retry {
            Retry::Now => Retry::After(pause),
            Retry::After(span) => Retry::After(span.max(pause)),
            Retry::Never => Retry::Never,
        };
        Verdict { allowed: false, retry, wait: Span::ZERO, ..verdict }
    }

    fn owe(&mut self, limit: &Limit, since: Time, cost: u64) {
        if let LimitAlgorithm::Meter(meter) = limit.algorithm() {
            meter.charge(&mut self.owed, since, i64::try_from(cost).unwrap_or(i64::MAX));
        }
    }

    /// Returns the verdict on units spent locally. Units of the chunk count as remaining.
    pub(super) fn allowed(&self, limit: &Limit, now: Time) -> Verdict {
        let (left, store_state) =
            (self.chunk.map_or(0, |chunk| chunk.unexpired(now)), self.store_state.as_ref());
        Verdict {
            allowed: true,
            retry: Retry::Now,
            ..verdict_after_refund(limit, store_state, left, now)
        }
    }

    /// Returns the state at the store with the units of the chunk given back.
    pub(super) fn including_chunk(
        &self,
        limit: &Limit,
        state: &Option<State>,
        now: ClockReading,
    ) -> Option<State> {
        let left = self.chunk.map_or(0, |chunk| chunk.spendable(now));
        with_refund(limit, state, left, now.store)
    }

    /// Returns the units that can be given back without being spent twice: see the proof in
    /// `leased/mod.rs`. Nothing is given back to a window that may have ended.
    fn returnable(&self, limit: &Limit, now: ClockReading, patience: Span) -> u64 {
        let Some(chunk) = &self.chunk else { return 0 };
        let arrives_by = now.store + patience;
        let safe = match limit.algorithm() {
            LimitAlgorithm::Meter(_) => {
                self.owed.parts().0 >= (arrives_by + LIFE).as_nanos() && !chunk.is_over(now.local)
            }
            _ => chunk.lasts_until(arrives_by),
        };
        if safe { chunk.unexpired(now.store) } else { 0 }
    }

    /// Plans the next chunk, given the units that all waiting requests need.
    pub(super) fn plan(
        &mut self,
        check: &Check<'_>,
        waiting: u64,
        nodes: u64,
        now: Option<ClockReading>,
        patience: Span,
    ) -> ChunkPlan {
        let (limit, cost) = (check.limit, check.cost);
        now.into_iter().for_each(|now| self.follow_clock(now.store));
        let back = now.map_or(0, |now| self.returnable(limit, now, patience));
        if let Some(now) = now
            && now.local >= self.not_before + ask_interval(limit)
        {
            // The last chunk lasted, or demand has ended.
            self.saturated = false;
        }
        if let (Some(chunk), Some(now)) = (&self.chunk, now) {
            let quick = now.local.since(chunk.requested_at) <= QUICKLY_USED;
            match chunk.left {
                0 if quick && (self.saturated || !self.was_cut) => {
                    self.target_size = chunk.size.saturating_mul(2)
                }
                0 => {}
                left if chunk.is_over(now.local) => self.target_size = chunk.size - left,
                _ => {}
            }
        }
        self.chunk = None;
        let target_size = self.target_size.max(cost).max(waiting).min(limit.capacity());
        let left = match (&self.store_state, now) {
            (Some(state), Some(now)) => {
                verdict_after_refund(limit, Some(state), back, now.store).remaining
            }
            _ => 0,
        };
        // Less than what refills before the next request counts as nothing.
        self.saturated |= self.store_state.is_some()
            && target_size > left
            && left <= refilled_per_interval(limit);
        // A store that is asked seldom may give more at a time.
        let share =
            if self.saturated { nodes.max(1) } else { nodes.saturating_mul(2).max(MIN_SHARES) };
        let size = target_size.min(left / share).max(cost);
        (self.target_size, self.was_cut) = (target_size, size < target_size);
        ChunkPlan { size, back }
    }

    /// Takes the store's reply to a request for `size` units, and spends the cost of the check.
    pub(super) fn receive(
        &mut self,
        check: &Check<'_>,
        size: u64,
        outcome: Outcome,
        requested_at: Time,
        local: Time,
    ) -> Verdict {
        let limit = check.limit;
        let Outcome { verdicts, states, now } = outcome;
        let verdict = verdicts[0];
        let state = states.into_iter().next().flatten();
        self.follow_clock(now);
        (self.failure, self.replied_at) = (None, now);
        if !verdict.allowed {
            (self.saturated, self.store_state) = (false, Some(state));
            return self.refused(limit, verdict, local);
        }
        if self.saturated {
            self.not_before = local + ask_interval(limit);
        }
        // A queued request has no units to spend yet.
        let chunk = state.as_ref().filter(|_| verdict.wait.is_zero());
        self.chunk = chunk.and_then(|state| Chunk::new(limit, state, size, now, requested_at));
        if let Some(chunk) = &mut self.chunk {
            chunk.left = size - check.cost;
        }
        self.store_state = Some(state);
        self.owe(limit, now, check.cost);
        match size == check.cost {
            true => verdict,
            false => self.allowed(limit, now),
        }
    }

    /// Puts spent units back into the chunk, if it is still there.
    pub(super) fn give_back(&mut self, limit: &Limit, cost: u64, now: ClockReading) -> bool {
        self.follow_clock(now.store);
        let Some(chunk) = &mut self.chunk else { return false };
        if chunk.is_over(now.local) || cost > chunk.size - chunk.left {
            return false;
        }
        chunk.left += cost;
        let charged_at = chunk.charged_at;
        self.owe_less(limit, charged_at, cost);
        true
    }

    /// Records that units were given back at the store.
    pub(super) fn refunded(&mut self, limit: &Limit, cost: u64, state: Option<State>, now: Time) {
        self.follow_clock(now);
        self.replied_at = now;
        self.owe_less(limit, now, cost);
        (self.store_state, self.saturated, self.not_before) = (Some(state), false, Time::EPOCH);
    }

    fn owe_less(&mut self, limit: &Limit, since: Time, cost: u64) {
        if let LimitAlgorithm::Meter(meter) = limit.algorithm() {
            let cost = i64::try_from(cost).unwrap_or(i64::MAX);
            meter.charge(&mut self.owed, since, -cost);
        }
    }

    /// Returns whether the rest of the chunk should be returned.
    pub(super) fn has_aged(&self, local: Time) -> bool {
        self.chunk.is_some_and(|chunk| local.since(chunk.requested_at) >= RETURN_AGE)
    }

    /// Removes the chunk and returns the units to give back. A chunk that cannot be returned safely
    /// stays while it can be spent.
    pub(super) fn take_returnable(
        &mut self,
        limit: &Limit,
        now: ClockReading,
        patience: Span,
    ) -> u64 {
        self.follow_clock(now.store);
        let Some(chunk) = self.chunk else { return 0 };
        let back = self.returnable(limit, now, patience);
        if back > 0 || chunk.is_over(now.local) {
            self.target_size = (chunk.size - chunk.left).max(1);
            self.store_state = self
                .store_state
                .take()
                .map(|store_state| with_refund(limit, &store_state, back, now.store));
            self.chunk = None;
        }
        back
    }

    pub(super) fn is_idle(&self, local: Time) -> bool {
        self.chunk.is_none() && local.since(self.used_at) > IDLE_TIMEOUT
    }

    /// Drops the chunk after a reset, which has removed its charge.
    pub(super) fn clear(&mut self) {
        *self = LeaseBalance {
            failures: self.failures,
            used_at: self.used_at,
            ..LeaseBalance::default()
        };
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn fail(&mut self, error: &StoreError) {
        self.failures += 1;
        self.failure = Some((error.kind(), error.to_string()));
    }

    /// Returns the error of a request to the store that failed since `failures` was read.
    pub(super) fn failed_since(&self, failures: u64) -> Option<StoreError> {
        let (kind, text) = self.failure.as_ref()?;
        (self.failures > failures).then(|| StoreError::new(text.as_str()).with_kind(*kind))
    }
}

/// Returns the pause between two requests to an exhausted store: shorter for a small bucket, which
/// would overflow meanwhile.
fn ask_interval(limit: &Limit) -> Span {
    ASK_INTERVAL.min(Span::from_nanos(limit.fill_time().as_nanos() / 16))
}

/// Returns the units that refill between two requests to an exhausted store.
fn refilled_per_interval(limit: &Limit) -> u64 {
    let (capacity, fill) = (u128::from(limit.capacity()), limit.fill_time().as_nanos().max(1));
    match limit.algorithm() {
        LimitAlgorithm::Meter(_) => {
            (capacity * u128::from(ask_interval(limit).as_nanos()) / u128::from(fill)) as u64
        }
        _ => 0,
    }
}

/// Returns a check of a limit, for an arbitrary counter.
fn any_check(limit: &Limit, cost: u64) -> Check<'_> {
    Check::new(tollgate::CounterId::new(0), 0_u64, limit, cost)
}

fn with_refund(limit: &Limit, state: &Option<State>, units: u64, now: Time) -> Option<State> {
    let mut state = state.clone();
    if units > 0 {
        apply(Action::Refund, &any_check(limit, units), &mut state, now);
    }
    state
}

/// Returns the verdict on a counter after some units are given back.
fn verdict_after_refund(
    limit: &Limit,
    state: Option<&Option<State>>,
    units: u64,
    now: Time,
) -> Verdict {
    let mut state = state.cloned().flatten();
    apply(Action::Refund, &any_check(limit, units), &mut state, now)
}
