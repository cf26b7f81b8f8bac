//! Routes the checks of a call by their consistency: strict at the store, leased or synced locally.
//! Checks on counters that are known to be exhausted are refused without the store.
//!
//! A call may mix checks of several modes, and is still all or none. Local checks are decided
//! first, then the store is asked. If it refuses, the local checks are refunded.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::{Action, Check, Consistency, Span, StoreCall, StoreError, Time, Verdict, Verdicts};

use crate::backend::Backend;
use crate::leased::{Lease, LeaseTable};
use crate::local::decision::{apply, current_verdict, try_take};
use crate::local::refusal_cache::RefusalCache;
use crate::strict::{Outcome, States};
use crate::synced::{SyncedCounters, can_sync};

/// Decides calls, each check in its mode.
#[derive(Debug)]
pub(crate) struct ModeRouter<T> {
    backend: Arc<T>,
    refusals: RefusalCache,
    leases: LeaseTable<T>,
    synced: SyncedCounters<T>,
    nodes: Arc<AtomicU64>,
    /// Whether this node gave units back since its last heartbeat.
    gave_back: AtomicBool,
}

type Indices = SmallVec<[usize; 4]>;
type Checks<'a> = SmallVec<[Check<'a>; 4]>;

/// The checks of a call, by the way they are decided.
#[derive(Default)]
struct ChecksByMode {
    strict: Indices,
    synced: Indices,
    leased: SmallVec<[(usize, Arc<Lease>); 4]>,
}

/// The verdicts of a call so far.
struct PartialVerdicts(SmallVec<[Option<Verdict>; 4]>);

impl PartialVerdicts {
    fn new(count: usize) -> PartialVerdicts {
        PartialVerdicts(SmallVec::from_elem(None, count))
    }

    fn put(&mut self, indices: &[usize], verdicts: Verdicts) {
        for (i, verdict) in indices.iter().zip(verdicts) {
            self.0[*i] = Some(verdict);
        }
    }

    fn pass(&self) -> bool {
        self.0.iter().flatten().all(|verdict| verdict.allowed)
    }
}

fn pick<'a>(checks: &[Check<'a>], indices: &[usize]) -> Checks<'a> {
    indices.iter().map(|i| checks[*i]).collect()
}

impl<T: Backend> ModeRouter<T> {
    /// Creates a router over a backend that `nodes` nodes share.
    pub(crate) fn new(backend: Arc<T>, nodes: Arc<AtomicU64>) -> ModeRouter<T> {
        ModeRouter {
            refusals: RefusalCache::new(),
            leases: LeaseTable::new(backend.clone(), nodes.clone()),
            synced: SyncedCounters::new(backend.clone()),
            backend,
            nodes,
            gave_back: AtomicBool::new(false),
        }
    }

    /// Runs a call, all or none.
    pub(crate) async fn run(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        let verdicts = self.decide(call).await?;
        if matches!(call.action, Action::Refund | Action::Reset) {
            self.gave_back.store(true, Ordering::Relaxed);
        }
        Ok(verdicts)
    }

    /// Returns the flag that is set when this node gives units back.
    pub(crate) fn gave_back_flag(&self) -> &AtomicBool {
        &self.gave_back
    }

    /// Forgets cached refusals that are older than the time at which another node gave units back.
    pub(crate) fn forget_refusals(&self, given_back_at: Time) {
        self.refusals.forget_all(given_back_at);
    }

    async fn decide(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        if call.checks.iter().all(|check| check.consistency == Consistency::Strict) {
            return Ok(self.call_store(call).await?.verdicts);
        }
        let modes = self.by_mode(call.checks);
        match call.action {
            Action::Take { max_wait } => self.take(call.checks, max_wait, modes).await,
            Action::Try { .. } | Action::Peek => self.peek(call, modes).await,
            Action::Spend | Action::Refund => self.adjust(call, modes).await,
            Action::Reset => {
                let verdicts = self.call_store(call).await?.verdicts;
                for check in call.checks {
                    self.leases.clear(check);
                    self.synced.drop(check);
                }
                Ok(verdicts)
            }
            _ => Ok(self.call_store(call).await?.verdicts),
        }
    }

    fn by_mode(&self, checks: &[Check<'_>]) -> ChecksByMode {
        let mut modes = ChecksByMode::default();
        for (i, check) in checks.iter().enumerate() {
            match check.consistency {
                Consistency::Leased => match self.leases.open(check) {
                    Some(lease) => modes.leased.push((i, lease)),
                    None => modes.strict.push(i),
                },
                Consistency::Synced if self.synced.has(check) => modes.synced.push(i),
                _ => modes.strict.push(i),
            }
        }
        modes
    }

    /// Calls the store, or answers from cached refusals; then there are no states.
    async fn call_store(&self, call: StoreCall<'_>) -> Result<Outcome, StoreError> {
        if let Action::Take { max_wait } = call.action
            && let Some(verdicts) = self.refusals.refusal(&*self.backend, call.checks, max_wait)
        {
            return Ok(Outcome { verdicts, states: States::new(), now: Time::EPOCH });
        }
        let outcome = self.backend.run(call).await?;
        self.refusals.record(call, &outcome);
        Ok(outcome)
    }

    async fn take(
        &self,
        checks: &[Check<'_>],
        max_wait: Span,
        mut modes: ChecksByMode,
    ) -> Result<Verdicts, StoreError> {
        if let ([check], [(_, lease)]) = (checks, &modes.leased[..]) {
            return Ok(Verdicts::from_elem(self.leases.take(lease, check, max_wait).await?.0, 1));
        }
        let action = Action::Take { max_wait };
        let mut verdicts_so_far = PartialVerdicts::new(checks.len());
        match self.synced.run(action, &pick(checks, &modes.synced)) {
            Some(verdicts) => verdicts_so_far.put(&modes.synced, verdicts),
            None => modes.strict.append(&mut modes.synced),
        }
        let mut failure = None;
        if verdicts_so_far.pass() {
            let take = |(i, lease): &(usize, Arc<Lease>)| {
                let (check, lease) = (&checks[*i], lease.clone());
                async move { self.leases.take(&lease, check, max_wait).await }
            };
            for ((i, _), taken) in
                modes.leased.iter().zip(join_all(modes.leased.iter().map(take)).await)
            {
                match taken {
                    Ok((verdict, _)) => verdicts_so_far.0[*i] = Some(verdict),
                    Err(error) => failure = Some(error),
                }
            }
        }
        if verdicts_so_far.pass() && failure.is_none() && !modes.strict.is_empty() {
            let checks = pick(checks, &modes.strict);
            match self.call_store(StoreCall { action, checks: &checks }).await {
                Err(error) => failure = Some(error),
                Ok(outcome) => {
                    for (check, state) in checks.iter().zip(&outcome.states) {
                        if check.consistency == Consistency::Synced && can_sync(check.limit) {
                            self.synced.adopt(check, state, outcome.now);
                        }
                    }
                    verdicts_so_far.put(&modes.strict, outcome.verdicts);
                }
            }
        }
        match failure {
            None if verdicts_so_far.pass() => {}
            None => {
                self.undo(checks, &modes, &verdicts_so_far).await;
                self.refuse(checks, max_wait, &modes, &mut verdicts_so_far).await?;
            }
            Some(error) => {
                self.undo(checks, &modes, &verdicts_so_far).await;
                return Err(error);
            }
        }
        Ok(verdicts_so_far.0.into_iter().flatten().collect())
    }

    /// Refunds the checks that passed in a request that is refused.
    async fn undo(
        &self,
        checks: &[Check<'_>],
        modes: &ChecksByMode,
        verdicts_so_far: &PartialVerdicts,
    ) {
        let taken = |i: &usize| verdicts_so_far.0[*i].is_some_and(|verdict| verdict.allowed);
        if modes.synced.iter().all(taken) {
            self.synced.run(Action::Refund, &pick(checks, &modes.synced));
        }
        let at_store = |(i, lease): &&(usize, Arc<Lease>)| {
            taken(i) && !self.leases.give_back(lease, &checks[*i])
        };
        let at_store: Indices = modes.leased.iter().filter(at_store).map(|(i, _)| *i).collect();
        if !at_store.is_empty()
            && let Err(error) = self.refund(checks, &at_store, modes).await
        {
            tracing::warn!(%error, "cannot refund a refused request; it stays charged in part");
        }
    }

    /// Refunds checks at the store.
    async fn refund(
        &self,
        checks: &[Check<'_>],
        indices: &[usize],
        modes: &ChecksByMode,
    ) -> Result<Outcome, StoreError> {
        let call = StoreCall { action: Action::Refund, checks: &pick(checks, indices) };
        let outcome = self.call_store(call).await?;
        for (i, lease) in &modes.leased {
            if let Some(at) = indices.iter().position(|at| at == i) {
                let state = outcome.states[at].clone();
                self.leases.refunded(lease, &checks[*i], state, outcome.now);
            }
        }
        Ok(outcome)
    }

    /// Completes the verdicts of a refused request: checks that do not refuse it report their
    /// state.
    async fn refuse(
        &self,
        checks: &[Check<'_>],
        max_wait: Span,
        modes: &ChecksByMode,
        verdicts_so_far: &mut PartialVerdicts,
    ) -> Result<(), StoreError> {
        let fresh = |check: &Check<'_>| current_verdict(check, &None, self.backend.clock().now());
        let refuses = |answer: &Option<Verdict>| answer.is_some_and(|verdict| !verdict.allowed);
        for (i, lease) in &modes.leased {
            if !refuses(&verdicts_so_far.0[*i]) {
                let verdict = self.leases.current_verdict(lease, &checks[*i]);
                verdicts_so_far.0[*i] = Some(verdict.unwrap_or_else(|| fresh(&checks[*i])));
            }
        }
        for i in &modes.synced {
            if !refuses(&verdicts_so_far.0[*i]) {
                let verdict = self.synced.current_verdict(&checks[*i]);
                verdicts_so_far.0[*i] = Some(verdict.unwrap_or_else(|| fresh(&checks[*i])));
            }
        }
        let undecided: Indices =
            modes.strict.iter().copied().filter(|i| verdicts_so_far.0[*i].is_none()).collect();
        if undecided.is_empty() {
            return Ok(());
        }
        let checks = pick(checks, &undecided);
        let outcome = self
            .call_store(StoreCall { action: Action::Try { max_wait }, checks: &checks })
            .await?;
        let mut verdicts = outcome.verdicts;
        for ((verdict, check), state) in verdicts.iter_mut().zip(&checks).zip(&outcome.states) {
            if verdict.allowed {
                *verdict = current_verdict(check, state, outcome.now);
            }
        }
        verdicts_so_far.put(&undecided, verdicts);
        Ok(())
    }

    /// Runs the synced checks in this process. Those that need the store become strict.
    fn run_synced(&self, call: StoreCall<'_>, modes: &mut ChecksByMode) -> PartialVerdicts {
        let mut verdicts_so_far = PartialVerdicts::new(call.checks.len());
        match self.synced.run(call.action, &pick(call.checks, &modes.synced)) {
            Some(verdicts) => verdicts_so_far.put(&modes.synced, verdicts),
            None => modes.strict.append(&mut modes.synced),
        }
        verdicts_so_far
    }

    /// Reads the verdicts without changing any counter.
    async fn peek(
        &self,
        call: StoreCall<'_>,
        mut modes: ChecksByMode,
    ) -> Result<Verdicts, StoreError> {
        let mut verdicts_so_far = self.run_synced(call, &mut modes);
        let strict: Indices =
            modes.strict.iter().copied().chain(modes.leased.iter().map(|(i, _)| *i)).collect();
        if !strict.is_empty() {
            let checks = pick(call.checks, &strict);
            let outcome =
                self.call_store(StoreCall { action: call.action, checks: &checks }).await?;
            verdicts_so_far.put(&strict, outcome.verdicts);
            let states = &outcome.states[modes.strict.len().min(outcome.states.len())..];
            for ((i, lease), state) in modes.leased.iter().zip(states) {
                let check = &call.checks[*i];
                let state = self.leases.including_chunk(lease, check, state, outcome.now);
                verdicts_so_far.0[*i] = Some(match call.action {
                    Action::Try { max_wait } => try_take(check, &state, outcome.now, max_wait),
                    action => apply(action, check, &mut state.clone(), outcome.now),
                });
            }
        }
        Ok(verdicts_so_far.0.into_iter().flatten().collect())
    }

    /// Spends or refunds unconditionally.
    async fn adjust(
        &self,
        call: StoreCall<'_>,
        mut modes: ChecksByMode,
    ) -> Result<Verdicts, StoreError> {
        let mut verdicts_so_far = self.run_synced(call, &mut modes);
        modes.strict.extend(modes.leased.iter().map(|(i, _)| *i));
        if !modes.strict.is_empty() {
            let outcome = match call.action {
                Action::Refund => self.refund(call.checks, &modes.strict, &modes).await?,
                action => {
                    let checks = pick(call.checks, &modes.strict);
                    self.call_store(StoreCall { action, checks: &checks }).await?
                }
            };
            verdicts_so_far.put(&modes.strict, outcome.verdicts);
        }
        Ok(verdicts_so_far.0.into_iter().flatten().collect())
    }

    /// Returns what the other nodes may admit unseen beyond the largest synced limit.
    pub(crate) fn overshoot_bound(&self) -> u64 {
        let others = self.nodes.load(Ordering::Relaxed).saturating_sub(1);
        others.saturating_mul(self.synced.largest_capacity())
    }

    /// Returns aged chunks to the store.
    pub(crate) async fn return_chunks(&self) {
        self.leases.return_chunks(false).await;
    }

    /// Pushes what was spent in synced mode, and pulls the states.
    pub(crate) async fn exchange(&self) {
        self.synced.exchange().await;
    }

    /// Returns all chunks and pushes all that was spent, before this node ends.
    pub(crate) async fn flush(&self) {
        self.leases.return_chunks(true).await;
        self.synced.exchange().await;
    }
}
