//! Strict decisions: one round trip for all checks that share a route.
//!
//! The Lua charges and judges, and returns the states as they were. The verdicts are computed here,
//! by the code that the memory store runs. Where Lua cannot represent the numbers,
//! `compare_and_swap.rs` decides. Adaptive and unlimited limits stay in this process, since a node
//! learns from its own requests.

mod check_encoder;
mod compare_and_swap;
#[cfg(test)]
mod differential;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_target;
mod hash_layout;
mod lua_reply;
mod meter_units;
mod redis_key;
mod routed_call;
mod state_text;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tollgate::state::State;
use tollgate::{
    Action, Check, Clock, LimitAlgorithm, MemoryStore, Retry, Store, StoreCall, StoreError, Time,
    Verdict, Verdicts,
};

use crate::client::{RedisClient, Route};
pub(crate) use lua_reply::in_micros;
use routed_call::RoutedCall;

/// The states of some checks; `None` where nothing is stored.
pub(crate) type States = SmallVec<[Option<State>; 4]>;

/// The outcome of a call.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// One verdict for each check.
    pub(crate) verdicts: Verdicts,
    /// The states after the call; `None` for counters in this process.
    pub(crate) states: States,
    /// The time of the decision, by the store's clock.
    pub(crate) now: Time,
}

/// Decides calls at the servers.
#[derive(Debug)]
pub(crate) struct StrictStore {
    client: RedisClient,
    prefix: Box<str>,
    /// The clock of this process, to measure how long a reply took.
    clock: Clock,
    /// Whether the clock of this process also replaces the store's, for tests.
    manual: bool,
    local: MemoryStore,
}

/// The location of a counter: this process, or a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CounterLocation {
    Local,
    Remote(Route),
}

/// The outcome of the checks that share a location.
struct PartialOutcome {
    of: SmallVec<[usize; 4]>,
    at: CounterLocation,
    outcome: Result<Outcome, StoreError>,
}

impl StrictStore {
    pub(crate) fn new(client: RedisClient, prefix: &str, manual: Option<Clock>) -> StrictStore {
        let clock = manual.clone().unwrap_or_else(|| client.local_clock().clone());
        let local = MemoryStore::new().clock(clock.clone());
        StrictStore { client, prefix: prefix.into(), clock, manual: manual.is_some(), local }
    }

    pub(crate) fn client(&self) -> &RedisClient {
        &self.client
    }

    /// Returns the clock of this process.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the latest possible time at the store of this key; `None` if its clock is unknown.
    pub(crate) fn latest(&self, check: &Check<'_>) -> Option<Time> {
        self.latest_at(self.route_of(check), self.clock.now())
    }

    /// Returns the latest possible time on a route, when the local clock shows `now`.
    fn latest_at(&self, route: Route, now: Time) -> Option<Time> {
        match self.manual {
            true => Some(now),
            false => self.client.clock(route).latest(now),
        }
    }

    /// Runs a call, all or none.
    pub(crate) async fn run(&self, call: StoreCall<'_>) -> Result<Outcome, StoreError> {
        let locations: SmallVec<[CounterLocation; 4]> =
            call.checks.iter().map(|c| self.location(c)).collect();
        let Some(first) = locations.first() else { return Ok(self.empty_outcome()) };
        if locations.iter().all(|route| route == first) {
            return self.run_at(*first, call).await;
        }
        let parts = self.split(&locations, call).await;
        let one_denied = |outcome: &Outcome| outcome.verdicts.iter().any(|v| !v.allowed);
        let undone = matches!(call.action, Action::Take { .. })
            && parts.iter().any(|part| part.outcome.as_ref().map_or(true, one_denied));
        let parts = if undone { self.undo(parts, call).await } else { parts };
        self.join(parts)
    }

    fn location(&self, check: &Check<'_>) -> CounterLocation {
        match check.limit.algorithm() {
            LimitAlgorithm::Adaptive(_) | LimitAlgorithm::Unlimited => CounterLocation::Local,
            _ => CounterLocation::Remote(self.route_of(check)),
        }
    }

    /// Returns the route of a check's counter.
    pub(crate) fn route_of(&self, check: &Check<'_>) -> Route {
        self.client.route(&redis_key::tag(check.key))
    }

    fn empty_outcome(&self) -> Outcome {
        Outcome { verdicts: Verdicts::new(), states: States::new(), now: self.clock.now() }
    }

    async fn run_at(
        &self,
        route: CounterLocation,
        call: StoreCall<'_>,
    ) -> Result<Outcome, StoreError> {
        match route {
            CounterLocation::Remote(route) => RoutedCall { strict: self, route, call }.run().await,
            CounterLocation::Local => {
                let verdicts = self.local.run(call).await?;
                let states = call.checks.iter().map(|_| None).collect();
                Ok(Outcome { verdicts, states, now: self.clock.now() })
            }
        }
    }

    /// Runs the checks of each location, all locations at the same time.
    async fn split(
        &self,
        locations: &[CounterLocation],
        call: StoreCall<'_>,
    ) -> Vec<PartialOutcome> {
        let mut parts: Vec<(CounterLocation, SmallVec<[usize; 4]>)> = Vec::new();
        for (i, route) in locations.iter().enumerate() {
            match parts.iter_mut().find(|(at, _)| at == route) {
                Some((_, of)) => of.push(i),
                None => parts.push((*route, SmallVec::from_slice(&[i]))),
            }
        }
        let decide = |(at, of): (CounterLocation, SmallVec<[usize; 4]>)| async move {
            let outcome = self.run_some(at, call.action, call.checks, &of).await;
            PartialOutcome { of, at, outcome }
        };
        join_all(parts.into_iter().map(decide)).await
    }

    async fn run_some(
        &self,
        at: CounterLocation,
        action: Action,
        checks: &[Check<'_>],
        of: &[usize],
    ) -> Result<Outcome, StoreError> {
        let checks: SmallVec<[Check<'_>; 4]> = of.iter().map(|i| checks[*i]).collect();
        self.run_at(at, StoreCall { action, checks: &checks }).await
    }

    /// Refunds the parts that passed, after another part was refused or failed.
    async fn undo(&self, parts: Vec<PartialOutcome>, call: StoreCall<'_>) -> Vec<PartialOutcome> {
        let undo = |mut part: PartialOutcome| async move {
            let allowed = |outcome: &Outcome| outcome.verdicts.iter().all(|v| v.allowed);
            if !part.outcome.as_ref().is_ok_and(allowed) {
                return part;
            }
            let refund = async {
                let refunded =
                    self.run_some(part.at, Action::Refund, call.checks, &part.of).await?;
                match names_a_counter_twice(call.checks) {
                    // The refund of the first check does not include the second.
                    true => self.run_some(part.at, Action::Peek, call.checks, &part.of).await,
                    false => Ok(refunded),
                }
            };
            match refund.await {
                Ok(mut refunded) => {
                    // These checks did not refuse the request, so they report their state only.
                    for verdict in &mut refunded.verdicts {
                        (verdict.allowed, verdict.retry) = (true, Retry::Now);
                    }
                    part.outcome = Ok(refunded);
                }
                Err(error) => tracing::warn!(
                    %error, "cannot refund a refused request; it stays charged in part"
                ),
            }
            part
        };
        join_all(parts.into_iter().map(undo)).await
    }

    /// Merges the outcomes of all parts in the order of the checks.
    fn join(&self, parts: Vec<PartialOutcome>) -> Result<Outcome, StoreError> {
        let mut joined = self.empty_outcome();
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

/// Returns whether two checks name the same counter.
pub(crate) fn names_a_counter_twice(checks: &[Check<'_>]) -> bool {
    let named_before =
        |i: usize| checks[..i].iter().any(|earlier| earlier.is_same_counter(&checks[i]));
    (1..checks.len()).any(named_before)
}
