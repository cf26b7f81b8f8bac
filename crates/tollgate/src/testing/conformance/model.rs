//! The reference a store is compared with: the algorithms on a map, and nothing else.

use std::collections::HashMap;

use tollgate_core::{
    Algorithm, Concurrency, ConcurrencyState, Retry, Span, Standing, Time, Verdict,
};

use crate::adaptive::AdaptiveState;
use crate::key::KeyBuf;
use crate::limit::AdaptiveRange;
use crate::{Action, Bucket, Call, Check, Engine, Limit, Verdicts};

/// What a key has spent under a limit.
trait Spent {
    /// Takes, or changes nothing.
    fn take(&mut self, now: Time, check: &Check<'_>, max_wait: Span) -> Verdict;
    fn counts_denied(&self) -> bool {
        false
    }
    fn charge(&mut self, now: Time, cost: i64, lease: u64);
    fn release(&mut self, _now: Time, _lease: u64, _rtt: Span, _dropped: bool) {}
    fn renew(&mut self, _now: Time, _lease: u64) {}
    fn standing(&self, now: Time) -> Standing;
    fn capacity(&self) -> u64;
    fn full_at(&self) -> Time;
    fn copy(&self) -> Box<dyn Spent>;
}

/// The states of all keys.
#[derive(Default)]
pub(super) struct Model(States);

type States = HashMap<(Bucket, KeyBuf), Box<dyn Spent>>;

impl Model {
    /// One check after the other on a copy, which is kept only if all agree. Otherwise those
    /// that agreed say how they stand, and those that did not may count that.
    pub(super) fn run(&mut self, call: Call<'_>, now: Time) -> Verdicts {
        // One whose time has come equals none.
        self.0.retain(|_, state| state.full_at() > now);
        let mut after = copy(&self.0);
        let verdicts: Verdicts =
            call.checks.iter().map(|check| step(&mut after, call.action, check, now)).collect();
        match call.action {
            Action::Peek | Action::Try { .. } => verdicts,
            Action::Take { .. } if !verdicts.iter().all(|verdict| verdict.allowed) => {
                let refused = call.checks.iter().zip(&verdicts).map(|(check, verdict)| {
                    let state = seat(&mut self.0, check, now);
                    if verdict.allowed {
                        return Verdict::allow(state.capacity(), state.standing(now));
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

fn seat<'s>(states: &'s mut States, check: &Check<'_>, now: Time) -> &'s mut Box<dyn Spent> {
    let seat = (check.bucket, check.key.into());
    states.entry(seat).or_insert_with(|| fresh(check.limit, now))
}

fn step(states: &mut States, action: Action, check: &Check<'_>, now: Time) -> Verdict {
    let state = seat(states, check, now);
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
            states.remove(&(check.bucket, check.key.into()));
            return look(&*new, now);
        }
    }
    look(&**state, now)
}

fn signed(cost: u64) -> i64 {
    i64::try_from(cost).unwrap_or(i64::MAX)
}

/// How much a check has to leave.
fn left(check: &Check<'_>, capacity: u64, spare: u64) -> u64 {
    check.reserve.amount(capacity).min(spare)
}

fn look(state: &dyn Spent, now: Time) -> Verdict {
    let standing = state.standing(now);
    match standing.overdrawn {
        Span::ZERO => Verdict::allow(state.capacity(), standing),
        owed => Verdict::deny(state.capacity(), standing, Retry::After(owed)),
    }
}

fn fresh(limit: &Limit, now: Time) -> Box<dyn Spent> {
    fn rate<A: Algorithm + Clone + 'static>(algorithm: &A, now: Time) -> Box<dyn Spent> {
        Box::new(Rate { state: algorithm.fresh(now), algorithm: algorithm.clone() })
    }
    match limit.engine() {
        Engine::Meter(algorithm) => rate(algorithm, now),
        Engine::FixedWindow(algorithm) => rate(algorithm, now),
        Engine::SlidingWindow(algorithm) => rate(algorithm, now),
        Engine::SlidingSlots(algorithm) => rate(algorithm, now),
        Engine::SlidingLog(algorithm) => rate(algorithm, now),
        Engine::WarmUp(algorithm) => rate(algorithm, now),
        Engine::Concurrent(places) => {
            Box::new(Places { places: *places, leases: ConcurrencyState::default() })
        }
        Engine::Adaptive(range) => {
            Box::new(Adaptive { range: *range, state: AdaptiveState::new(range) })
        }
        Engine::Unlimited => Box::new(Unlimited),
    }
}

#[derive(Clone)]
struct Rate<A: Algorithm> {
    algorithm: A,
    state: A::State,
}

impl<A: Algorithm + Clone + 'static> Spent for Rate<A> {
    /// Who has to leave something passes if that much more is there, and never waits.
    fn take(&mut self, now: Time, check: &Check<'_>, max_wait: Span) -> Verdict {
        let Rate { algorithm, state } = self;
        let reserve = left(check, algorithm.capacity(), algorithm.spare(check.cost));
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

    fn standing(&self, now: Time) -> Standing {
        self.algorithm.peek(&self.state, now)
    }

    fn capacity(&self) -> u64 {
        self.algorithm.capacity()
    }

    fn full_at(&self) -> Time {
        self.algorithm.full_at(&self.state)
    }

    fn copy(&self) -> Box<dyn Spent> {
        Box::new(self.clone())
    }
}

#[derive(Clone)]
struct Places {
    places: Concurrency,
    leases: ConcurrencyState,
}

impl Spent for Places {
    fn take(&mut self, now: Time, check: &Check<'_>, _max_wait: Span) -> Verdict {
        acquire(self.places, &mut self.leases, now, check)
    }

    fn charge(&mut self, now: Time, cost: i64, lease: u64) {
        if cost < 0 {
            self.places.release(&mut self.leases, now, lease);
        }
    }

    fn renew(&mut self, now: Time, lease: u64) {
        self.places.renew(&mut self.leases, now, lease);
    }

    fn release(&mut self, now: Time, lease: u64, _rtt: Span, _dropped: bool) {
        self.places.release(&mut self.leases, now, lease);
    }

    fn standing(&self, now: Time) -> Standing {
        self.places.peek(&self.leases, now)
    }

    fn capacity(&self) -> u64 {
        self.places.capacity()
    }

    fn full_at(&self) -> Time {
        self.places.full_at(&self.leases)
    }

    fn copy(&self) -> Box<dyn Spent> {
        Box::new(self.clone())
    }
}

/// Takes places if what must stay free could be taken as well.
fn acquire(
    places: Concurrency,
    leases: &mut ConcurrencyState,
    now: Time,
    check: &Check<'_>,
) -> Verdict {
    let capacity = places.capacity();
    let reserve = left(check, capacity, capacity.saturating_sub(check.cost));
    let mut both = leases.clone();
    let verdict = places.acquire(&mut both, now, check.cost.saturating_add(reserve), check.lease);
    match verdict.allowed {
        true => places.acquire(leases, now, check.cost, check.lease),
        false => verdict,
    }
}

#[derive(Clone)]
struct Adaptive {
    range: AdaptiveRange,
    state: AdaptiveState,
}

impl Adaptive {
    fn places(&self) -> Concurrency {
        self.state.places(&self.range)
    }
}

impl Spent for Adaptive {
    fn take(&mut self, now: Time, check: &Check<'_>, _max_wait: Span) -> Verdict {
        acquire(self.places(), &mut self.state.leases, now, check)
    }

    fn charge(&mut self, now: Time, cost: i64, lease: u64) {
        if cost < 0 {
            self.places().release(&mut self.state.leases, now, lease);
        }
    }

    fn renew(&mut self, now: Time, lease: u64) {
        self.places().renew(&mut self.state.leases, now, lease);
    }

    fn release(&mut self, now: Time, lease: u64, rtt: Span, dropped: bool) {
        if self.places().release(&mut self.state.leases, now, lease) {
            self.state.learn(&self.range, now, rtt, dropped);
        }
    }

    fn standing(&self, now: Time) -> Standing {
        self.places().peek(&self.state.leases, now)
    }

    fn capacity(&self) -> u64 {
        self.places().capacity()
    }

    fn full_at(&self) -> Time {
        self.state.full_at(&self.range)
    }

    fn copy(&self) -> Box<dyn Spent> {
        Box::new(self.clone())
    }
}

struct Unlimited;

impl Spent for Unlimited {
    fn take(&mut self, now: Time, _check: &Check<'_>, _max_wait: Span) -> Verdict {
        Verdict::allow(u64::MAX, self.standing(now))
    }

    fn charge(&mut self, _now: Time, _cost: i64, _lease: u64) {}

    fn standing(&self, _now: Time) -> Standing {
        let (overdrawn, delay, reset_after) = (Span::ZERO, Span::ZERO, Span::ZERO);
        Standing { overdrawn, delay, remaining: u64::MAX, reset_after }
    }

    fn capacity(&self) -> u64 {
        u64::MAX
    }

    fn full_at(&self) -> Time {
        Time::EPOCH
    }

    fn copy(&self) -> Box<dyn Spent> {
        Box::new(Unlimited)
    }
}
