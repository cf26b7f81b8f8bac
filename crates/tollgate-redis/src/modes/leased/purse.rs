//! What a node knows of a counter that it takes chunks from. No waiting here, and no store.

use tollgate::state::State;
use tollgate::{
    Action, Check, Engine, Limit, Retry, Span, StoreError, StoreErrorKind, Time, Verdict,
};
use tollgate_core::{Algorithm, MeterState};

use super::super::judge::{Moment, act, tried};
use super::chunk::{Chunk, LIFE};
use crate::strict::Outcome;

/// A chunk that is used up within this time was too small.
const QUICK: Span = Span::from_millis(50);
/// From this age on the rest of a chunk goes back, while that is still safe.
const AGED: Span = Span::from_millis(150);
/// Without a request for so long, a counter is forgotten.
const IDLE: Span = Span::from_secs(2);
/// Once the store has nothing left, it is asked no more often than this.
const PACE: Span = Span::from_millis(10);
/// A chunk is at most this part of what is left, so that no node takes all.
const SHARE: u64 = 8;

/// A chunk, and what leads to the next one.
#[derive(Debug, Default)]
pub(super) struct Purse {
    chunk: Option<Chunk>,
    /// The arrival time of what was spent from here: all nodes together owe at least this.
    owed: MeterState,
    /// The counter as the store last told of it, if it did.
    told: Option<Option<State>>,
    /// How large a chunk should be.
    want: u64,
    /// The last one was smaller than that: there was not enough.
    cut: bool,
    /// The store had nothing left, and since then whoever asked wanted all there was.
    saturated: bool,
    /// Until then it is not asked again.
    not_before: Time,
    used_at: Time,
    /// How often asking has failed, and how the last time.
    failures: u64,
    failure: Option<(StoreErrorKind, String)>,
}

/// What to ask the store for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) size: u64,
    /// Units of the former chunk that go back first.
    pub(super) back: u64,
}

impl Purse {
    /// Decides without asking, if that is possible.
    pub(super) fn decide(
        &mut self,
        check: &Check<'_>,
        max_wait: Span,
        now: Moment,
        patience: Span,
    ) -> Option<Verdict> {
        self.used_at = now.here;
        if let Some(chunk) = &mut self.chunk
            && chunk.spend(check.cost, now)
        {
            let charged_at = chunk.charged_at;
            self.owe(check.limit, charged_at, check.cost);
            return Some(self.allowed(check.limit, now.store));
        }
        let told = self.told.as_ref()?;
        let back = self.returnable(check.limit, now, patience);
        let state = given_back(check.limit, told, back, now.store);
        let verdict = tried(check, &state, now.store, max_wait);
        // Who waits in line anyway need not wait to ask.
        let waits = !max_wait.min(check.patience).is_zero();
        if verdict.allowed && (waits || now.here >= self.not_before) {
            return None;
        }
        Some(self.refused(check.limit, verdict, now.here))
    }

    /// There is nothing left: the store is asked again when there is, and not too often.
    fn refused(&mut self, limit: &Limit, verdict: Verdict, here: Time) -> Verdict {
        if !self.saturated {
            (self.saturated, self.not_before) = (true, here + pace(limit));
        }
        let held = self.not_before.since(here);
        let retry = match verdict.retry {
            Retry::Now => Retry::After(held),
            Retry::After(span) => Retry::After(span.max(held)),
            Retry::Never => Retry::Never,
        };
        Verdict { allowed: false, retry, wait: Span::ZERO, ..verdict }
    }

    fn owe(&mut self, limit: &Limit, since: Time, cost: u64) {
        if let Engine::Meter(meter) = limit.engine() {
            meter.charge(&mut self.owed, since, i64::try_from(cost).unwrap_or(i64::MAX));
        }
    }

    /// The verdict on what was spent here: what this node holds counts as left.
    pub(super) fn allowed(&self, limit: &Limit, now: Time) -> Verdict {
        let (left, told) = (self.chunk.map_or(0, |chunk| chunk.unlapsed(now)), self.told.as_ref());
        Verdict { allowed: true, retry: Retry::Now, ..stood(limit, told, left, now) }
    }

    /// How the counter stands, given how it stands at the store.
    pub(super) fn with_ours(
        &self,
        limit: &Limit,
        state: &Option<State>,
        now: Moment,
    ) -> Option<State> {
        let left = self.chunk.map_or(0, |chunk| chunk.spendable(now));
        given_back(limit, state, left, now.store)
    }

    /// What could go back to the store without letting anybody spend it twice: see the proof in
    /// `leased.rs`. Into a window that is over nothing goes back either.
    fn returnable(&self, limit: &Limit, now: Moment, patience: Span) -> u64 {
        let Some(chunk) = &self.chunk else { return 0 };
        let arrives_by = now.store + patience;
        let safe = match limit.engine() {
            Engine::Meter(_) => {
                self.owed.parts().0 >= (arrives_by + LIFE).as_nanos() && !chunk.is_over(now.here)
            }
            _ => chunk.lasts_until(arrives_by),
        };
        if safe { chunk.unlapsed(now.store) } else { 0 }
    }

    /// What to charge so that `cost` can be spent, `waiting` units being waited for.
    pub(super) fn plan(
        &mut self,
        check: &Check<'_>,
        waiting: u64,
        nodes: u64,
        now: Option<Moment>,
        patience: Span,
    ) -> Plan {
        let (limit, cost) = (check.limit, check.cost);
        let back = now.map_or(0, |now| self.returnable(limit, now, patience));
        if let Some(now) = now
            && now.here >= self.not_before + pace(limit)
        {
            // What there was has lasted, or nobody came for more.
            self.saturated = false;
        }
        if let (Some(chunk), Some(now)) = (&self.chunk, now) {
            let quick = now.here.since(chunk.asked_at) <= QUICK;
            match chunk.left {
                0 if quick && (self.saturated || !self.cut) => {
                    self.want = chunk.size.saturating_mul(2)
                }
                0 => {}
                left if chunk.is_over(now.here) => self.want = chunk.size - left,
                _ => {}
            }
        }
        self.chunk = None;
        let want = self.want.max(cost).max(waiting).min(limit.capacity());
        let left = match (&self.told, now) {
            (Some(state), Some(now)) => stood(limit, Some(state), back, now.store).remaining,
            _ => 0,
        };
        // Less than comes back until the next question is as good as nothing.
        self.saturated |= self.told.is_some() && want > left && left <= trickle(limit);
        // Who is asked only now and then may give more at a time.
        let share = if self.saturated { nodes.max(1) } else { nodes.saturating_mul(2).max(SHARE) };
        let size = want.min(left / share).max(cost);
        (self.want, self.cut) = (want, size < want);
        Plan { size, back }
    }

    /// The store has charged or refused `size`; who asked spends `cost` of it.
    pub(super) fn receive(
        &mut self,
        check: &Check<'_>,
        size: u64,
        outcome: Outcome,
        asked_at: Time,
        here: Time,
    ) -> Verdict {
        let limit = check.limit;
        let Outcome { verdicts, states, now } = outcome;
        let verdict = verdicts[0];
        let state = states.into_iter().next().flatten();
        self.failure = None;
        if !verdict.allowed {
            (self.saturated, self.told) = (false, Some(state));
            return self.refused(limit, verdict, here);
        }
        if self.saturated {
            self.not_before = here + pace(limit);
        }
        // Who waits in line has nothing to spend at once.
        let chunk = state.as_ref().filter(|_| verdict.wait.is_zero());
        self.chunk = chunk.and_then(|state| Chunk::new(limit, state, size, now, asked_at));
        if let Some(chunk) = &mut self.chunk {
            chunk.left = size - check.cost;
        }
        self.told = Some(state);
        self.owe(limit, now, check.cost);
        match size == check.cost {
            true => verdict,
            false => self.allowed(limit, now),
        }
    }

    /// Puts back what was spent here, if its chunk is still there.
    pub(super) fn give_back(&mut self, limit: &Limit, cost: u64, now: Moment) -> bool {
        let Some(chunk) = &mut self.chunk else { return false };
        if chunk.is_over(now.here) || cost > chunk.size - chunk.left {
            return false;
        }
        chunk.left += cost;
        let charged_at = chunk.charged_at;
        self.owe_less(limit, charged_at, cost);
        true
    }

    /// Something was given back at the store: there is more than was known.
    pub(super) fn refunded(&mut self, limit: &Limit, cost: u64, state: Option<State>, now: Time) {
        self.owe_less(limit, now, cost);
        (self.told, self.saturated, self.not_before) = (Some(state), false, Time::EPOCH);
    }

    fn owe_less(&mut self, limit: &Limit, since: Time, cost: u64) {
        if let Engine::Meter(meter) = limit.engine() {
            let cost = i64::try_from(cost).unwrap_or(i64::MAX);
            meter.charge(&mut self.owed, since, -cost);
        }
    }

    /// Whether it is time to bring back what is left of the chunk.
    pub(super) fn has_aged(&self, here: Time) -> bool {
        self.chunk.is_some_and(|chunk| here.since(chunk.asked_at) >= AGED)
    }

    /// What to bring back of the chunk, which is then gone from here; unless it may not go back and
    /// can still be spent.
    pub(super) fn bring_back(&mut self, limit: &Limit, now: Moment, patience: Span) -> u64 {
        let Some(chunk) = self.chunk else { return 0 };
        let back = self.returnable(limit, now, patience);
        if back > 0 || chunk.is_over(now.here) {
            self.want = (chunk.size - chunk.left).max(1);
            self.told = self.told.take().map(|told| given_back(limit, &told, back, now.store));
            self.chunk = None;
        }
        back
    }

    pub(super) fn is_idle(&self, here: Time) -> bool {
        self.chunk.is_none() && here.since(self.used_at) > IDLE
    }

    /// Everything was reset: what is held here is no longer charged anywhere.
    pub(super) fn clear(&mut self) {
        *self = Purse { failures: self.failures, used_at: self.used_at, ..Purse::default() };
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    pub(super) fn fail(&mut self, error: &StoreError) {
        self.failures += 1;
        self.failure = Some((error.kind(), error.to_string()));
    }

    /// How asking failed, if it has since there were so many failures.
    pub(super) fn failed_since(&self, failures: u64) -> Option<StoreError> {
        let (kind, text) = self.failure.as_ref()?;
        (self.failures > failures).then(|| StoreError::new(text.as_str()).of(*kind))
    }
}

/// A small bucket fills up sooner than that, and would overflow.
fn pace(limit: &Limit) -> Span {
    PACE.min(Span::from_nanos(limit.fill_time().as_nanos() / 16))
}

/// What comes back between two questions once there is nothing left.
fn trickle(limit: &Limit) -> u64 {
    let (capacity, fill) = (u128::from(limit.capacity()), limit.fill_time().as_nanos().max(1));
    match limit.engine() {
        Engine::Meter(_) => {
            (capacity * u128::from(pace(limit).as_nanos()) / u128::from(fill)) as u64
        }
        _ => 0,
    }
}

/// A check on a counter that is known by its limit alone.
fn anybody(limit: &Limit, cost: u64) -> Check<'_> {
    Check::new(tollgate::Bucket::new(0), 0_u64, limit, cost)
}

fn given_back(limit: &Limit, state: &Option<State>, units: u64, now: Time) -> Option<State> {
    let mut state = state.clone();
    if units > 0 {
        act(Action::Refund, &anybody(limit, units), &mut state, now);
    }
    state
}

/// How a counter stands with so many units given back.
fn stood(limit: &Limit, state: Option<&Option<State>>, units: u64, now: Time) -> Verdict {
    let mut state = state.cloned().flatten();
    act(Action::Refund, &anybody(limit, units), &mut state, now)
}
