//! Decisions at the store: one round trip for all checks that share a place.
//!
//! The Lua charges and judges, and answers with the states as they were; the verdicts are worded
//! here, by the code the memory store runs. What Lua has no numbers for takes the longer road of
//! `swap.rs`. Limits that adapt, and those that limit nothing, are kept in this process: a node
//! learns from what it sends itself.

#[cfg(test)]
mod differential;
mod key;
mod layout;
mod part;
mod reply;
mod swap;
mod text;
mod told;
mod units;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::state::State;
use tollgate::{
    Action, Call, Check, Clock, Engine, MemoryStore, Retry, Store, StoreError, Time, Verdict,
    Verdicts,
};

use crate::fleet::{Fleet, Place};
use part::Part;
pub(crate) use reply::in_micros;

/// The states of some checks; none where nothing is remembered.
pub(crate) type States = SmallVec<[Option<State>; 4]>;

/// What became of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// One for each check.
    pub(crate) verdicts: Verdicts,
    /// What is remembered afterwards. Also none for what this process keeps.
    pub(crate) states: States,
    /// When that was, at the store.
    pub(crate) now: Time,
}

/// Runs calls at the store.
#[derive(Debug)]
pub(crate) struct Strict {
    fleet: Fleet,
    prefix: Box<str>,
    /// Ours, to tell how long an answer took.
    clock: Clock,
    /// The store's time is ours: for tests.
    manual: bool,
    here: MemoryStore,
}

/// Where a check is decided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Here,
    At(Place),
}

/// A part of a call: whose checks they are, and what became of them.
struct Decided {
    of: SmallVec<[usize; 4]>,
    at: Where,
    outcome: Result<Outcome, StoreError>,
}

impl Strict {
    pub(crate) fn new(fleet: Fleet, prefix: &str, manual: Option<Clock>) -> Strict {
        let clock = manual.clone().unwrap_or_else(|| fleet.clock_here().clone());
        let here = MemoryStore::new().clock(clock.clone());
        Strict { fleet, prefix: prefix.into(), clock, manual: manual.is_some(), here }
    }

    /// What the names of all keys start with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Ours, not the store's.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The latest it can be at the store of that key; none if nothing is known of its clock.
    pub(crate) fn latest(&self, check: &Check<'_>) -> Option<Time> {
        self.latest_at(self.place_of(check), self.clock.now())
    }

    /// The same for a place, when it is `now` here.
    fn latest_at(&self, place: Place, now: Time) -> Option<Time> {
        match self.manual {
            true => Some(now),
            false => self.fleet.clock(place).latest(now),
        }
    }

    /// Runs a call: all or none.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Outcome, StoreError> {
        let places: SmallVec<[Where; 4]> = call.checks.iter().map(|c| self.place(c)).collect();
        let Some(first) = places.first() else { return Ok(self.nothing()) };
        if places.iter().all(|place| place == first) {
            return self.run_at(*first, call).await;
        }
        let parts = self.split(&places, call).await;
        let one_denied = |outcome: &Outcome| outcome.verdicts.iter().any(|v| !v.allowed);
        let undone = matches!(call.action, Action::Take { .. })
            && parts.iter().any(|part| part.outcome.as_ref().map_or(true, one_denied));
        let parts = if undone { self.undo(parts, call).await } else { parts };
        self.join(parts)
    }

    fn place(&self, check: &Check<'_>) -> Where {
        match check.limit.engine() {
            Engine::Adaptive(_) | Engine::Unlimited => Where::Here,
            _ => Where::At(self.place_of(check)),
        }
    }

    /// Where the counter of a check is, unless this process keeps it.
    pub(crate) fn place_of(&self, check: &Check<'_>) -> Place {
        self.fleet.place(&key::tag(check.key))
    }

    fn nothing(&self) -> Outcome {
        Outcome { verdicts: Verdicts::new(), states: States::new(), now: self.clock.now() }
    }

    async fn run_at(&self, place: Where, call: Call<'_>) -> Result<Outcome, StoreError> {
        match place {
            Where::At(place) => Part { strict: self, place, call }.run().await,
            Where::Here => {
                let verdicts = self.here.run(call).await?;
                let states = call.checks.iter().map(|_| None).collect();
                Ok(Outcome { verdicts, states, now: self.clock.now() })
            }
        }
    }

    /// Every place decides on its own, all at once.
    async fn split(&self, places: &[Where], call: Call<'_>) -> Vec<Decided> {
        let mut parts: Vec<(Where, SmallVec<[usize; 4]>)> = Vec::new();
        for (i, place) in places.iter().enumerate() {
            match parts.iter_mut().find(|(at, _)| at == place) {
                Some((_, of)) => of.push(i),
                None => parts.push((*place, SmallVec::from_slice(&[i]))),
            }
        }
        let decide = |(at, of): (Where, SmallVec<[usize; 4]>)| async move {
            let outcome = self.run_some(at, call.action, call.checks, &of).await;
            Decided { of, at, outcome }
        };
        join_all(parts.into_iter().map(decide)).await
    }

    async fn run_some(
        &self,
        at: Where,
        action: Action,
        checks: &[Check<'_>],
        of: &[usize],
    ) -> Result<Outcome, StoreError> {
        let checks: SmallVec<[Check<'_>; 4]> = of.iter().map(|i| checks[*i]).collect();
        self.run_at(at, Call { action, checks: &checks }).await
    }

    /// One part said no, or nothing: those that said yes get back what they were charged.
    async fn undo(&self, parts: Vec<Decided>, call: Call<'_>) -> Vec<Decided> {
        let undo = |mut part: Decided| async move {
            let allowed = |outcome: &Outcome| outcome.verdicts.iter().all(|v| v.allowed);
            if !part.outcome.as_ref().is_ok_and(allowed) {
                return part;
            }
            let refund = async {
                let refunded =
                    self.run_some(part.at, Action::Refund, call.checks, &part.of).await?;
                match names_one_twice(call.checks) {
                    // The first of the two does not know of the second.
                    true => self.run_some(part.at, Action::Peek, call.checks, &part.of).await,
                    false => Ok(refunded),
                }
            };
            match refund.await {
                Ok(mut refunded) => {
                    // Nobody is refused here: this is how they stand.
                    for verdict in &mut refunded.verdicts {
                        (verdict.allowed, verdict.retry) = (true, Retry::Now);
                    }
                    part.outcome = Ok(refunded);
                }
                Err(error) => tracing::warn!(
                    %error, "a refused request stays charged at a part of the store"
                ),
            }
            part
        };
        join_all(parts.into_iter().map(undo)).await
    }

    /// The outcomes of all parts, in the order of the checks.
    fn join(&self, parts: Vec<Decided>) -> Result<Outcome, StoreError> {
        let mut joined = self.nothing();
        let mut answers: SmallVec<[(usize, Verdict, Option<State>); 4]> = SmallVec::new();
        for part in parts {
            let Outcome { verdicts, states, now } = part.outcome?;
            let checks = part.of.into_iter().zip(verdicts).zip(states);
            answers.extend(checks.map(|((check, verdict), state)| (check, verdict, state)));
            joined.now = now;
        }
        answers.sort_unstable_by_key(|(check, ..)| *check);
        for (_, verdict, state) in answers {
            joined.verdicts.push(verdict);
            joined.states.push(state);
        }
        Ok(joined)
    }
}

/// Whether two checks are about the same counter.
pub(crate) fn names_one_twice(checks: &[Check<'_>]) -> bool {
    let named_before =
        |i: usize| checks[..i].iter().any(|earlier| earlier.is_about_the_same_as(&checks[i]));
    (1..checks.len()).any(named_before)
}
