//! What every door asks. A door turns bytes into a [`Request`] and a [`Decision`] into bytes; what
//! is in between is here, and only here.

mod brought;

use std::sync::Arc;

use tollgate::rules::envoy::{RateLimitAnswer, RateLimitRequest};
use tollgate::rules::{Adjustment, Decision, RuleLimiter};
use tollgate::{
    Action, Call, Check, Clock, Key, MemoryStore, Request, Span, Store, StoreError, Verdict,
};

pub use brought::{Brought, BroughtError};

use crate::telemetry::{DoorName, Telemetry};
use brought::Cache;

/// Decides for every door, and tells [`Telemetry`] about it. Clones share everything.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limiter: RuleLimiter,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    brought: Cache,
}

impl Engine {
    pub(crate) fn new(limiter: RuleLimiter, clock: Clock, telemetry: Arc<Telemetry>) -> Engine {
        Engine(Arc::new(Shared { limiter, clock, telemetry, brought: Cache::default() }))
    }

    /// Where the rules are.
    pub(crate) fn limiter(&self) -> &RuleLimiter {
        &self.0.limiter
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.0.telemetry
    }

    fn store(&self) -> &MemoryStore {
        self.0.limiter.store()
    }

    /// Decides by rules.
    pub(crate) async fn check(&self, door: DoorName, request: &Request<'_>, cost: u64) -> Decision {
        let before = self.0.clock.now();
        let decision = self.0.limiter.ask(request).await;
        self.0.telemetry.decided(door, &decision, cost);
        self.0.telemetry.took(door, 1, self.0.clock.now().since(before));
        decision
    }

    /// Reads or changes what rules count a request by.
    pub(crate) async fn adjust(
        &self,
        request: &Request<'_>,
        adjustment: Adjustment,
    ) -> Result<Decision, StoreError> {
        self.0.limiter.adjust(request, adjustment).await
    }

    /// A limit that callers bring along, from its text.
    pub(crate) fn brought(&self, text: &str) -> Result<Arc<Brought>, BroughtError> {
        self.0.brought.get(text)
    }

    /// Decides by a limit that the caller brought along.
    pub(crate) async fn limit(
        &self,
        door: DoorName,
        key: &[u8],
        brought: &Brought,
        cost: u64,
    ) -> Result<Verdict, StoreError> {
        let before = self.0.clock.now();
        let verdict = self.on(Action::Take { max_wait: Span::ZERO }, key, brought, cost).await?;
        self.0.telemetry.limited(door, key, &verdict, cost);
        self.0.telemetry.took(door, 1, self.0.clock.now().since(before));
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
        let check = Check::new(brought.bucket, Key::Bytes(key), &brought.limit, cost);
        let verdicts = self.store().run(Call { action, checks: &[check] }).await?;
        Ok(verdicts[0])
    }

    /// Decides many independent requests at once, each by a limit its caller brought along. The
    /// clock is read once, and waiting for memory overlaps. Answers in order.
    pub(crate) fn limit_each(
        &self,
        door: DoorName,
        checks: &[Check<'_>],
        mut answer: impl FnMut(Verdict),
    ) {
        let before = self.0.clock.now();
        let mut asked = checks.iter();
        self.store().decide_each(checks, |verdict| {
            if let Some(Check { key: Key::Bytes(key), cost, .. }) = asked.next() {
                self.0.telemetry.limited(door, key, &verdict, *cost);
            }
            answer(verdict);
        });
        let span = self.0.clock.now().since(before);
        self.0.telemetry.took(door, checks.len() as u64, span);
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
