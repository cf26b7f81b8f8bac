//! How closely nodes agree: at the store, with leased chunks, or synced at intervals; and refusing
//! without asking what is known to be exhausted.
//!
//! A call may mix checks of several modes, and stays all or none: what can be decided here is
//! decided first, then the store is asked, and if it refuses, what was taken here is given back.

mod batch;
mod judge;
mod known;
mod leased;
mod name;
mod nodes;
mod shards;
mod synced;
#[cfg(test)]
mod tests;
mod truth;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::{Action, Call, Check, Consistency, Span, StoreError, Time, Verdict, Verdicts};

use crate::strict::{Outcome, States};
use judge::{act, stands, tried};
use known::Known;
use leased::{Lease, Leases};
pub(crate) use nodes::Nodes;
use synced::{Synced, can_sync};
pub(crate) use truth::Truth;

/// Decides calls, each check in its mode.
#[derive(Debug)]
pub(crate) struct Modes<T> {
    truth: Arc<T>,
    known: Known,
    leases: Leases<T>,
    synced: Synced<T>,
    nodes: Arc<AtomicU64>,
    /// Whether something was given back here that the other nodes have not heard of.
    gave_back: AtomicBool,
}

type Places = SmallVec<[usize; 4]>;
type Checks<'a> = SmallVec<[Check<'a>; 4]>;

/// Which checks of a call are decided how.
#[derive(Default)]
struct Roads {
    strict: Places,
    synced: Places,
    leased: SmallVec<[(usize, Arc<Lease>); 4]>,
}

/// The verdicts of a call, as far as there are any.
struct Answers(SmallVec<[Option<Verdict>; 4]>);

impl Answers {
    fn new(count: usize) -> Answers {
        Answers(SmallVec::from_elem(None, count))
    }

    fn put(&mut self, places: &[usize], verdicts: Verdicts) {
        for (i, verdict) in places.iter().zip(verdicts) {
            self.0[*i] = Some(verdict);
        }
    }

    fn pass(&self) -> bool {
        self.0.iter().flatten().all(|verdict| verdict.allowed)
    }
}

fn pick<'a>(checks: &[Check<'a>], places: &[usize]) -> Checks<'a> {
    places.iter().map(|i| checks[*i]).collect()
}

impl<T: Truth> Modes<T> {
    /// Decides at `truth`, which `nodes` share.
    pub(crate) fn new(truth: Arc<T>, nodes: Arc<AtomicU64>) -> Modes<T> {
        Modes {
            known: Known::new(),
            leases: Leases::new(truth.clone(), nodes.clone()),
            synced: Synced::new(truth.clone()),
            truth,
            nodes,
            gave_back: AtomicBool::new(false),
        }
    }

    /// Runs a call: all or none.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        let verdicts = self.decide(call).await?;
        if matches!(call.action, Action::Refund | Action::Reset) {
            self.gave_back.store(true, Ordering::Relaxed);
        }
        Ok(verdicts)
    }

    /// Whether something was given back since this was last asked.
    pub(crate) fn has_given_back(&self) -> &AtomicBool {
        &self.gave_back
    }

    /// Another node gave something back then: what is known to be exhausted may no longer be.
    pub(crate) fn doubt(&self, given_back_at: Time) {
        self.known.forget_all(given_back_at);
    }

    async fn decide(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        if call.checks.iter().all(|check| check.consistency == Consistency::Strict) {
            return Ok(self.ask(call).await?.verdicts);
        }
        let roads = self.roads(call.checks);
        match call.action {
            Action::Take { max_wait } => self.take(call.checks, max_wait, roads).await,
            Action::Try { .. } | Action::Peek => self.look(call, roads).await,
            Action::Spend | Action::Refund => self.adjust(call, roads).await,
            Action::Reset => {
                let verdicts = self.ask(call).await?.verdicts;
                for check in call.checks {
                    self.leases.clear(check);
                    self.synced.drop(check);
                }
                Ok(verdicts)
            }
            _ => Ok(self.ask(call).await?.verdicts),
        }
    }

    fn roads(&self, checks: &[Check<'_>]) -> Roads {
        let mut roads = Roads::default();
        for (i, check) in checks.iter().enumerate() {
            match check.consistency {
                Consistency::Leased => match self.leases.open(check) {
                    Some(lease) => roads.leased.push((i, lease)),
                    None => roads.strict.push(i),
                },
                Consistency::Synced if self.synced.has(check) => roads.synced.push(i),
                _ => roads.strict.push(i),
            }
        }
        roads
    }

    /// The answer of the store, or what it is known to be; then there are no states.
    async fn ask(&self, call: Call<'_>) -> Result<Outcome, StoreError> {
        if let Action::Take { max_wait } = call.action
            && let Some(verdicts) = self.known.refusal(&*self.truth, call.checks, max_wait)
        {
            return Ok(Outcome { verdicts, states: States::new(), now: Time::EPOCH });
        }
        let outcome = self.truth.run(call).await?;
        self.known.learn(call, &outcome);
        Ok(outcome)
    }

    async fn take(
        &self,
        checks: &[Check<'_>],
        max_wait: Span,
        mut roads: Roads,
    ) -> Result<Verdicts, StoreError> {
        if let ([check], [(_, lease)]) = (checks, &roads.leased[..]) {
            return Ok(Verdicts::from_elem(self.leases.take(lease, check, max_wait).await?.0, 1));
        }
        let action = Action::Take { max_wait };
        let mut answers = Answers::new(checks.len());
        match self.synced.run(action, &pick(checks, &roads.synced)) {
            Some(verdicts) => answers.put(&roads.synced, verdicts),
            None => roads.strict.append(&mut roads.synced),
        }
        let mut trouble = None;
        if answers.pass() {
            let take = |(i, lease): &(usize, Arc<Lease>)| {
                let (check, lease) = (&checks[*i], lease.clone());
                async move { self.leases.take(&lease, check, max_wait).await }
            };
            for ((i, _), taken) in
                roads.leased.iter().zip(join_all(roads.leased.iter().map(take)).await)
            {
                match taken {
                    Ok((verdict, _)) => answers.0[*i] = Some(verdict),
                    Err(error) => trouble = Some(error),
                }
            }
        }
        if answers.pass() && trouble.is_none() && !roads.strict.is_empty() {
            let checks = pick(checks, &roads.strict);
            match self.ask(Call { action, checks: &checks }).await {
                Err(error) => trouble = Some(error),
                Ok(outcome) => {
                    for (check, state) in checks.iter().zip(&outcome.states) {
                        if check.consistency == Consistency::Synced && can_sync(check.limit) {
                            self.synced.adopt(check, state);
                        }
                    }
                    answers.put(&roads.strict, outcome.verdicts);
                }
            }
        }
        match trouble {
            None if answers.pass() => {}
            None => {
                self.undo(checks, &roads, &answers).await;
                self.refuse(checks, max_wait, &roads, &mut answers).await?;
            }
            Some(error) => {
                self.undo(checks, &roads, &answers).await;
                return Err(error);
            }
        }
        Ok(answers.0.into_iter().flatten().collect())
    }

    /// Gives back what was taken for a request that does not pass.
    async fn undo(&self, checks: &[Check<'_>], roads: &Roads, answers: &Answers) {
        let taken = |i: &usize| answers.0[*i].is_some_and(|verdict| verdict.allowed);
        if roads.synced.iter().all(taken) {
            self.synced.run(Action::Refund, &pick(checks, &roads.synced));
        }
        let gone = |(i, lease): &&(usize, Arc<Lease>)| {
            taken(i) && !self.leases.give_back(lease, &checks[*i])
        };
        let gone: Places = roads.leased.iter().filter(gone).map(|(i, _)| *i).collect();
        if !gone.is_empty()
            && let Err(error) = self.refund(checks, &gone, roads).await
        {
            tracing::warn!(%error, "a refused request stays charged at a part of the store");
        }
    }

    /// Gives back at the store.
    async fn refund(
        &self,
        checks: &[Check<'_>],
        places: &[usize],
        roads: &Roads,
    ) -> Result<Outcome, StoreError> {
        let call = Call { action: Action::Refund, checks: &pick(checks, places) };
        let outcome = self.ask(call).await?;
        for (i, lease) in &roads.leased {
            if let Some(place) = places.iter().position(|place| place == i) {
                let state = outcome.states[place].clone();
                self.leases.refunded(lease, &checks[*i], state, outcome.now);
            }
        }
        Ok(outcome)
    }

    /// Words the answer to a request that does not pass: who does not refuse it says how it stands.
    async fn refuse(
        &self,
        checks: &[Check<'_>],
        max_wait: Span,
        roads: &Roads,
        answers: &mut Answers,
    ) -> Result<(), StoreError> {
        let fresh = |check: &Check<'_>| stands(check, &None, self.truth.clock().now());
        let refuses = |answer: &Option<Verdict>| answer.is_some_and(|verdict| !verdict.allowed);
        for (i, lease) in &roads.leased {
            if !refuses(&answers.0[*i]) {
                let verdict = self.leases.stands(lease, &checks[*i]);
                answers.0[*i] = Some(verdict.unwrap_or_else(|| fresh(&checks[*i])));
            }
        }
        for i in &roads.synced {
            if !refuses(&answers.0[*i]) {
                let verdict = self.synced.stands(&checks[*i]);
                answers.0[*i] = Some(verdict.unwrap_or_else(|| fresh(&checks[*i])));
            }
        }
        let unasked: Places =
            roads.strict.iter().copied().filter(|i| answers.0[*i].is_none()).collect();
        if unasked.is_empty() {
            return Ok(());
        }
        let checks = pick(checks, &unasked);
        let outcome = self.ask(Call { action: Action::Try { max_wait }, checks: &checks }).await?;
        let mut verdicts = outcome.verdicts;
        for ((verdict, check), state) in verdicts.iter_mut().zip(&checks).zip(&outcome.states) {
            if verdict.allowed {
                *verdict = stands(check, state, outcome.now);
            }
        }
        answers.put(&unasked, verdicts);
        Ok(())
    }

    /// Asks how things stand, or what would be answered; nothing is kept.
    async fn look(&self, call: Call<'_>, mut roads: Roads) -> Result<Verdicts, StoreError> {
        let mut answers = Answers::new(call.checks.len());
        match self.synced.run(call.action, &pick(call.checks, &roads.synced)) {
            Some(verdicts) => answers.put(&roads.synced, verdicts),
            None => roads.strict.append(&mut roads.synced),
        }
        let strict: Places =
            roads.strict.iter().copied().chain(roads.leased.iter().map(|(i, _)| *i)).collect();
        if !strict.is_empty() {
            let checks = pick(call.checks, &strict);
            let outcome = self.ask(Call { action: call.action, checks: &checks }).await?;
            answers.put(&strict, outcome.verdicts);
            let states = &outcome.states[roads.strict.len().min(outcome.states.len())..];
            for ((i, lease), state) in roads.leased.iter().zip(states) {
                let check = &call.checks[*i];
                let state = self.leases.with_ours(lease, check, state, outcome.now);
                answers.0[*i] = Some(match call.action {
                    Action::Try { max_wait } => tried(check, &state, outcome.now, max_wait),
                    action => act(action, check, &mut state.clone(), outcome.now),
                });
            }
        }
        Ok(answers.0.into_iter().flatten().collect())
    }

    /// Spends or gives back without asking.
    async fn adjust(&self, call: Call<'_>, mut roads: Roads) -> Result<Verdicts, StoreError> {
        let mut answers = Answers::new(call.checks.len());
        match self.synced.run(call.action, &pick(call.checks, &roads.synced)) {
            Some(verdicts) => answers.put(&roads.synced, verdicts),
            None => roads.strict.append(&mut roads.synced),
        }
        roads.strict.extend(roads.leased.iter().map(|(i, _)| *i));
        if !roads.strict.is_empty() {
            let outcome = match call.action {
                Action::Refund => self.refund(call.checks, &roads.strict, &roads).await?,
                action => {
                    let checks = pick(call.checks, &roads.strict);
                    self.ask(Call { action, checks: &checks }).await?
                }
            };
            answers.put(&roads.strict, outcome.verdicts);
        }
        Ok(answers.0.into_iter().flatten().collect())
    }

    /// What `nodes - 1` others may admit beyond the largest of the synced limits, unseen.
    pub(crate) fn overshoot_bound(&self) -> u64 {
        let others = self.nodes.load(Ordering::Relaxed).saturating_sub(1);
        others.saturating_mul(self.synced.widest())
    }

    /// Brings back chunks that have aged.
    pub(crate) async fn tidy(&self) {
        self.leases.tidy(false).await;
    }

    /// Tells the store what was spent in synced mode, and learns how things stand.
    pub(crate) async fn exchange(&self) {
        self.synced.exchange().await;
    }

    /// Brings back all chunks and tells all that was spent: this node is about to end.
    pub(crate) async fn flush(&self) {
        self.leases.tidy(true).await;
        self.synced.exchange().await;
    }
}
