//! The reference model of a store: the plain algorithms on a map.

use std::collections::HashMap;

use tollgate_core::{
    Algorithm, Concurrency, ConcurrencyState, Judgement, Retry, Span, Time, Verdict,
};

use crate::adaptive::AdaptiveState;
use crate::key::KeyBuf;
use crate::limit::AdaptiveRange;
use crate::{Action, Check, CounterId, Limit, LimitAlgorithm, StoreCall, Verdicts};

/// The state of a key under a limit.
trait ModelState {
    /// Takes the cost of `check`; a denied state is discarded by the caller.
    fn take(&mut self, now: Time, check: &Check<'_>, max_wait: Span) -> Verdict;
    fn counts_denied(&self) -> bool {
        false
    }
    fn charge(&mut self, now: Time, cost: i64, lease: u64);
    fn release(&mut self, _now: Time, _lease: u64, _rtt: Span, _dropped: bool) {}
    fn renew(&mut self, _now: Time, _lease: u64) {}
    fn judgement(&self, now: Time) -> Judgement;
    fn capacity(&self) -> u64;
    fn full_at(&self) -> Time;
    fn copy(&self) -> Box<dyn ModelState>;
}

/// The states of all keys.
#[derive(Default)]
pub(super) struct Model(States);

type States = HashMap<(CounterId, KeyBuf), Box<dyn ModelState>>;

impl Model {
    /// Runs the checks one by one on a copy, which replaces the states only if all are allowed.
    ///
    /// Otherwise the allowed checks report their unchanged state, and the denied ones are
    /// charged if their limit counts denials.
    pub(super) fn run(&mut self, call: StoreCall<'_>, now: Time) -> Verdicts {
        // A state that is full equals no state.
        self.0.retain(|_, state| state.full_at() > now);
        let mut after = copy(&self.0);
        let verdicts: Verdicts = call
            .checks
            .iter()
            .map(|check| run_check(&mut after, call.action, check, now))
            .collect();
        match call.action {
            Action::Peek | Action::Try { .. } => verdicts,
            Action::Take { .. } if !verdicts.iter().all(|verdict| verdict.allowed) => {
                let refused = call.checks.iter().zip(&verdicts).map(|(check, verdict)| {
                    let state = state_for(&mut self.0, check, now);
                    if verdict.allowed {
                        return Verdict::allow(state.capacity(), state.judgement(now));
                    }
                    if state.counts_denied() {
                        state.charge(now, signed(check.cost), check.lease);
                    }
                    *verdict
                });
                refused.collect()
            }
            _ => {
                self.0 = after;
                verdicts
            }
        }
    }
}

fn copy(states: &States) -> States {
    states.iter().map(|(key, state)| (key.clone(), state.copy())).collect()
}

/// Returns the state of the counter and key of `check`, new if there is none.
fn state_for<'s>(
    states: &'s mut States,
    check: &Check<'_>,
    now: Time,
) -> &'s mut Box<dyn ModelState> {
    states.entry((check.counter, check.key.into())).or_insert_with(|| fresh(check.limit, now))
}

/// Runs `action` for one check.
fn run_check(states: &mut States, action: Action, check: &Check<'_>, now: Time) -> Verdict {
    let state = state_for(states, check, now);
    let cost = signed(check.cost);
    match action {
        Action::Take { max_wait } => {
            let mut taken = state.copy();
            let verdict = taken.take(now, check, max_wait.min(check.patience));
            if verdict.allowed {
                *state = taken;
            }
            return verdict;
        }
        Action::Try { max_wait } => {
            return state.copy().take(now, check, max_wait.min(check.patience));
        }
        Action::Peek => {}
        Action::Spend => state.charge(now, cost, check.lease),
        Action::Refund => state.charge(now, -cost, check.lease),
        Action::Release { rtt, dropped } => state.release(now, check.lease, rtt, dropped),
        Action::Renew => state.renew(now, check.lease),
        Action::Reset => {
            let new = fresh(check.limit, now);
            states.remove(&(check.counter, check.key.into()));
            return peek(&*new, now);
        }
    }
    peek(&**state, now)
}

fn signed(cost: u64) -> i64 {
    i64::try_from(cost).unwrap_or(i64::MAX)
}

/// Returns the amount that a check must leave, at most `spare`.
fn reserve_amount(check: &Check<'_>, capacity: u64, spare: u64) -> u64 {
    check.reserve.amount(capacity).min(spare)
}

/// Returns the verdict on a cost of zero.
fn peek(state: &dyn ModelState, now: Time) -> Verdict {
    let judgement = state.judgement(now);
    match judgement.overdrawn {
        Span::ZERO => Verdict::allow(state.capacity(), judgement),
        overdrawn => Verdict::deny(state.capacity(), judgement, Retry::After(overdrawn)),
    }
}

/// Returns the state of a new key.
fn fresh(limit: &Limit, now: Time) -> Box<dyn ModelState> {
    fn rate<A: Algorithm + Clone + 'static>(algorithm: &A, now: Time) -> Box<dyn ModelState> {
        Box::new(RateModel { state: algorithm.fresh(now), algorithm: algorithm.clone() })
    }
    match limit.algorithm() {
        LimitAlgorithm::Meter(algorithm) => rate(algorithm, now),
        LimitAlgorithm::FixedWindow(algorithm) => rate(algorithm, now),
        LimitAlgorithm::SlidingWindow(algorithm) => rate(algorithm, now),
        LimitAlgorithm::SlidingSlots(algorithm) => rate(algorithm, now),
        LimitAlgorithm::SlidingLog(algorithm) => rate(algorithm, now),
        LimitAlgorithm::WarmUp(algorithm) => rate(algorithm, now),
        LimitAlgorithm::Concurrent(concurrency) => {
            Box::new(PermitModel { concurrency: *concurrency, leases: ConcurrencyState::default() })
        }
        LimitAlgorithm::Adaptive(range) => {
            Box::new(AdaptiveModel { range: *range, state: AdaptiveState::new(range) })
        }
        LimitAlgorithm::Unlimited => Box::new(UnlimitedModel),
    }
}

/// The state of a rate.
#[derive(Clone)]
struct RateModel<A: Algorithm> {
    algorithm: A,
    state: A::State,
}

impl<A: Algorithm + Clone + 'static> ModelState for RateModel<A> {
    /// Allows a check with a reserve only if cost and reserve are available now.
    fn take(&mut self, now: Time, check: &Check<'_>, max_wait: Span) -> Verdict {
        let RateModel { algorithm, state } = self;
        let reserve =
            reserve_amount(check, algorithm.capacity(), algorithm.max_reserve(check.cost));
        let cost = if algorithm.pays_later() { 0 } else { check.cost };
        if reserve == 0 {
            return algorithm.reserve(state, now, check.cost, max_wait);
        }
        if algorithm.peek(state, now).remaining >= cost + reserve {
            let mut taken = state.clone();
            let verdict = algorithm.reserve(&mut taken, now, check.cost, Span::ZERO);
            if verdict.allowed {
                *state = taken;
                return verdict;
            }
        }
        algorithm.refuse_leaving(state, now, check.cost, reserve)
    }

    fn counts_denied(&self) -> bool {
        self.algorithm.counts_denied()
    }

    fn charge(&mut self, now: Time, cost: i64, _lease: u64) {
        self.algorithm.charge(&mut self.state, now, cost);
    }

    fn judgement(&self, now: Time) -> Judgement {
        self.algorithm.peek(&self.state, now)
    }

    fn capacity(&self) -> u64 {
        self.algorithm.capacity()
    }

    fn full_at(&self) -> Time {
        self.algorithm.full_at(&self.state)
    }

    fn copy(&self) -> Box<dyn ModelState> {
        Box::new(self.clone())
    }
}

/// The permits of a concurrency limit.
#[derive(Clone)]
struct PermitModel {
    concurrency: Concurrency,
    leases: ConcurrencyState,
}

impl ModelState for PermitModel {
    fn take(&mut self, now: Time, check: &Check<'_>, _max_wait: Span) -> Verdict {
        acquire(self.concurrency, &mut self.leases, now, check)
    }

    fn charge(&mut self, now: Time, cost: i64, lease: u64) {
        if cost < 0 {
            self.concurrency.release(&mut self.leases, now, lease);
        }
    }

    fn renew(&mut self, now: Time, lease: u64) {
        self.concurrency.renew(&mut self.leases, now, lease);
    }

    fn release(&mut self, now: Time, lease: u64, _rtt: Span, _dropped: bool) {
        self.concurrency.release(&mut self.leases, now, lease);
    }

    fn judgement(&self, now: Time) -> Judgement {
        self.concurrency.peek(&self.leases, now)
    }

    fn capacity(&self) -> u64 {
        self.concurrency.capacity()
    }

    fn full_at(&self) -> Time {
        self.concurrency.full_at(&self.leases)
    }

    fn copy(&self) -> Box<dyn ModelState> {
        Box::new(self.clone())
    }
}

/// Takes permits if the reserve could be taken as well.
fn acquire(
    concurrency: Concurrency,
    leases: &mut ConcurrencyState,
    now: Time,
    check: &Check<'_>,
) -> Verdict {
    let capacity = concurrency.capacity();
    let reserve = reserve_amount(check, capacity, capacity.saturating_sub(check.cost));
    let mut both = leases.clone();
    let verdict =
        concurrency.acquire(&mut both, now, check.cost.saturating_add(reserve), check.lease);
    match verdict.allowed {
        true => concurrency.acquire(leases, now, check.cost, check.lease),
        false => verdict,
    }
}

/// The permits and the controller of an adaptive limit.
#[derive(Clone)]
struct AdaptiveModel {
    range: AdaptiveRange,
    state: AdaptiveState,
}

impl AdaptiveModel {
    fn concurrency(&self) -> Concurrency {
        self.state.concurrency(&self.range)
    }
}

impl ModelState for AdaptiveModel {
    fn take(&mut self, now: Time, check: &Check<'_>, _max_wait: Span) -> Verdict {
        acquire(self.concurrency(), &mut self.state.leases, now, check)
    }

    fn charge(&mut self, now: Time, cost: i64, lease: u64) {
        if cost < 0 {
            self.concurrency().release(&mut self.state.leases, now, lease);
        }
    }

    fn renew(&mut self, now: Time, lease: u64) {
        self.concurrency().renew(&mut self.state.leases, now, lease);
    }

    fn release(&mut self, now: Time, lease: u64, rtt: Span, dropped: bool) {
        if self.concurrency().release(&mut self.state.leases, now, lease) {
            self.state.record_sample(&self.range, now, rtt, dropped);
        }
    }

    fn judgement(&self, now: Time) -> Judgement {
        self.concurrency().peek(&self.state.leases, now)
    }

    fn capacity(&self) -> u64 {
        self.concurrency().capacity()
    }

    fn full_at(&self) -> Time {
        self.state.full_at(&self.range)
    }

    fn copy(&self) -> Box<dyn ModelState> {
        Box::new(self.clone())
    }
}

/// The state of no limit, which is empty.
struct UnlimitedModel;

impl ModelState for UnlimitedModel {
    fn take(&mut self, now: Time, _check: &Check<'_>, _max_wait: Span) -> Verdict {
        Verdict::allow(u64::MAX, self.judgement(now))
    }

    fn charge(&mut self, _now: Time, _cost: i64, _lease: u64) {}

    fn judgement(&self, _now: Time) -> Judgement {
        let (overdrawn, delay, reset_after) = (Span::ZERO, Span::ZERO, Span::ZERO);
        Judgement { overdrawn, delay, remaining: u64::MAX, reset_after }
    }

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn full_at(&self) -> Time {
        Time::EPOCH
    }

    fn copy(&self) -> Box<dyn ModelState> {
        Box::new(UnlimitedModel)
    }
}
