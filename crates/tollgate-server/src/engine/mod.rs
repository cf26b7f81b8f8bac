//! What every door asks. A door turns bytes into a [`Request`] and a [`Decision`] into bytes; what
//! is in between is here, and only here.

mod asked;
mod brought;
mod holds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::rules::envoy::{RateLimitAnswer, RateLimitRequest};
use tollgate::rules::{Adjustment, Decision, KeyAdjustment, Reason};
use tollgate::{
    Action, Call, Check, Clock, Key, Limit, MemoryStore, Request, Span, Store, StoreError, Verdict,
};

pub(crate) use asked::Asked;
pub(crate) use brought::{Brought, BroughtError};
pub(crate) use holds::{HoldId, Outcome, Truth, USUAL as USUAL_HOLD};

use crate::store::{AnyLimiter, AnyStore, Shared};
use crate::telemetry::{DoorName, Telemetry};
use brought::Cache;
use holds::Holds;

/// So many domains are named to who asked for another one.
const DOMAINS_SHOWN: usize = 20;

/// Decides for every door, and tells [`Telemetry`] about it. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Engine(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    limiter: AnyLimiter,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    brought: Cache,
    holds: Holds,
    /// Whether the gateway keeps what rules defer, and tells what became of it.
    defers: AtomicBool,
}

impl Engine {
    pub(crate) fn new(limiter: AnyLimiter, clock: Clock, telemetry: Arc<Telemetry>) -> Engine {
        let (brought, holds) = (Cache::default(), Holds::default());
        let told = telemetry.clone();
        limiter.on_settled(move |domain, rule, settled| told.settled(domain, rule, settled));
        let defers = AtomicBool::new(false);
        Engine(Arc::new(Inside { limiter, clock, telemetry, brought, holds, defers }))
    }

    /// Whether requests to the gateway that rules defer are kept.
    pub(crate) fn defers(&self, defers: bool) {
        self.0.defers.store(defers, Ordering::Relaxed);
    }

    /// Where the rules are.
    pub(crate) fn limiter(&self) -> &AnyLimiter {
        &self.0.limiter
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.0.telemetry
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Where the counters are.
    pub(crate) fn store(&self) -> &AnyStore {
        self.0.limiter.store()
    }

    /// Decides by rules.
    pub(crate) async fn check(&self, door: DoorName, request: &Request<'_>, cost: u64) -> Decision {
        let before = self.0.clock.now();
        let decision = self.0.limiter.ask(request).await;
        self.tell(door, &decision, cost, self.0.clock.now().since(before));
        decision
    }

    /// Decides by rules, and comes back once the request may go on or is refused. Who drops this has
    /// left.
    pub(crate) async fn admit(&self, door: DoorName, request: &Request<'_>, cost: u64) -> Decision {
        let before = self.0.clock.now();
        let decision = self.0.limiter.admit(request).await;
        let took = self.0.clock.now().since(before) - decision.wait.into();
        self.tell(door, &decision, cost, took);
        decision
    }

    /// Tells of a decision. What is deferred is told once it is kept, or cannot be.
    pub(crate) fn tell(&self, door: DoorName, decision: &Decision, cost: u64, took: Span) {
        match decision.allowed || !self.is_told_later(door, decision) {
            true => self.0.telemetry.decided(door, decision, cost, took),
            false => self.0.telemetry.took(door, 1, took),
        }
    }

    #[cold]
    fn is_told_later(&self, door: DoorName, decision: &Decision) -> bool {
        door == DoorName::Gateway
            && self.0.defers.load(Ordering::Relaxed)
            && decision.is_deferrable()
    }

    /// What to say of a decision about a domain nobody has rules for: that is a mistake, not a
    /// permission.
    pub(crate) fn unknown_domain(
        &self,
        named: Option<&str>,
        decision: &Decision,
    ) -> Option<String> {
        if decision.reason != Reason::Unmatched || decision.domain().is_some() {
            return None;
        }
        let rules = self.0.limiter.rules();
        let names: Vec<&str> = rules.domain_names().take(DOMAINS_SHOWN).collect();
        let names = names.join(", ");
        Some(match named {
            Some(domain) => format!("there is no domain {domain:?}; there are: {names}"),
            None => format!("`domain` is missing; there are: {names}"),
        })
    }

    /// Reads or changes what rules count a request by.
    pub(crate) async fn adjust(
        &self,
        request: &Request<'_>,
        adjustment: Adjustment,
    ) -> Result<Decision, StoreError> {
        self.0.limiter.adjust(request, adjustment).await
    }

    /// The same for one key of one rule, as decisions name them; none if there is no such rule.
    pub(crate) async fn adjust_key(
        &self,
        domain: Option<&str>,
        rule: &str,
        key: &str,
        adjustment: KeyAdjustment,
    ) -> Result<Option<Decision>, StoreError> {
        self.0.limiter.adjust_key(domain, rule, key, adjustment).await
    }

    /// A limit that callers bring along, from its text.
    pub(crate) fn brought(&self, text: &str) -> Result<Arc<Brought>, BroughtError> {
        self.0.brought.get(text)
    }

    /// The same in the words of another language; `limit` says what they mean.
    pub(crate) fn brought_as(
        &self,
        words: &str,
        limit: impl FnOnce() -> Result<Limit, BroughtError>,
    ) -> Result<Arc<Brought>, BroughtError> {
        self.0.brought.get_or(words, limit)
    }

    /// Decides by a limit that the caller brought along.
    pub(crate) async fn limit(
        &self,
        door: DoorName,
        key: &[u8],
        brought: &Brought,
        cost: u64,
    ) -> Result<Verdict, StoreError> {
        self.limit_as(door, key, brought, cost, brought.lease()).await
    }

    async fn limit_as(
        &self,
        door: DoorName,
        key: &[u8],
        brought: &Brought,
        cost: u64,
        lease: u64,
    ) -> Result<Verdict, StoreError> {
        let before = self.0.clock.now();
        let action = Action::Take { max_wait: Span::ZERO };
        let verdict = self.on_as(action, key, brought, cost, lease).await?;
        let span = self.0.clock.now().since(before);
        self.0.telemetry.limited(door, key, &verdict, cost);
        self.0.telemetry.took(door, 1, span);
        if self.store().memory().is_some() {
            self.0.telemetry.store_took(1, span);
        }
        Ok(verdict)
    }

    /// Does something to the counter of a limit that the caller brought along.
    pub(crate) async fn on(
        &self,
        action: Action,
        key: &[u8],
        brought: &Brought,
        cost: u64,
    ) -> Result<Verdict, StoreError> {
        self.on_as(action, key, brought, cost, 0).await
    }

    /// The same for a holder of a place on a concurrency limit.
    async fn on_as(
        &self,
        action: Action,
        key: &[u8],
        brought: &Brought,
        cost: u64,
        lease: u64,
    ) -> Result<Verdict, StoreError> {
        let check = Check { lease, ..brought.check(key, cost) };
        let verdicts = self.store().run(Call { action, checks: &[check] }).await?;
        Ok(verdicts[0])
    }

    /// Decides many independent requests at once in memory, each by a limit its caller brought
    /// along. The clock is read once, and waiting for memory overlaps. Answers in order.
    pub(crate) fn limit_each(
        &self,
        store: &MemoryStore,
        door: DoorName,
        checks: &[Check<'_>],
        mut answer: impl FnMut(Verdict),
    ) {
        let before = self.0.clock.now();
        let mut asked = checks.iter();
        store.decide_each(checks, |verdict| {
            if let Some(Check { key: Key::Bytes(key), cost, .. }) = asked.next() {
                self.0.telemetry.limited(door, key, &verdict, *cost);
            }
            answer(verdict);
        });
        let span = self.0.clock.now().since(before);
        self.0.telemetry.took(door, checks.len() as u64, span);
        self.0.telemetry.store_took(checks.len() as u64, span);
    }

    /// The same in a store elsewhere, which is asked for all of them at the same time.
    pub(crate) async fn limit_each_elsewhere(
        &self,
        store: &Shared,
        door: DoorName,
        checks: &[Check<'_>],
    ) -> Vec<Result<Verdict, StoreError>> {
        let before = self.0.clock.now();
        let verdicts = store.decide_each(checks).await;
        for (check, verdict) in checks.iter().zip(&verdicts) {
            if let (Key::Bytes(key), Ok(verdict)) = (check.key, verdict) {
                self.0.telemetry.limited(door, key, verdict, check.cost);
            }
        }
        let span = self.0.clock.now().since(before);
        self.0.telemetry.took(door, checks.len() as u64, span);
        verdicts
    }

    /// Answers Envoy.
    pub(crate) async fn envoy(
        &self,
        request: &RateLimitRequest<'_>,
    ) -> Result<RateLimitAnswer, StoreError> {
        let before = self.0.clock.now();
        let answer = self.0.limiter.ask_envoy(request).await?;
        self.0.telemetry.enveloped(DoorName::Grpc, request, &answer);
        self.0.telemetry.took(DoorName::Grpc, 1, self.0.clock.now().since(before));
        Ok(answer)
    }
}
