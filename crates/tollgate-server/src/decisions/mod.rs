//! The decision service, which all doors share. A door turns bytes into a [`Request`] and a
//! [`Decision`] into bytes; everything in between happens here, and only here.

mod inline_limit;
mod inline_limit_list;
mod request_attributes;
mod reservations;
mod throttle;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::{
    Action, Check, Clock, Key, MemoryStore, Span, Store, StoreCall, StoreError, Time, Verdict,
};
use tollgate_rules::envoy::{RateLimitRequest, RateLimitResponse};
use tollgate_rules::{AdjustTarget, Adjustment, Admission, Decision, Reason, Request, envoy};

pub(crate) use inline_limit::{Database, InlineLimit, InlineLimitError};
pub(crate) use inline_limit_list::InlineLimitList;
pub(crate) use request_attributes::RequestAttributes;
pub(crate) use reservations::{
    DEFAULT_OPEN_TIME as DEFAULT_RESERVATION_TIME, ReservationId, ReservationOutcome,
    ReservationOwner, ReservationsFull, ReserveError, SavedReservation, SettledState,
    SettlementResult,
};
pub(crate) use throttle::{ThrottleArguments, ThrottleDialect, throttlecrab_times};

use crate::config::Bounds;
use crate::store::{AnyLimiter, AnyStore, SharedStore};
use crate::telemetry::{DoorName, EnvoyError, Telemetry};
use inline_limit::InlineLimitCache;
use reservations::ReservationTable;

/// The maximum number of domains that an error about an unknown domain lists.
const DOMAINS_SHOWN: usize = 20;

/// Decides for every door, and records the decisions in [`Telemetry`]. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct DecisionService(Arc<DecisionServiceInner>);

#[derive(Debug)]
struct DecisionServiceInner {
    limiter: AnyLimiter,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    inline_limits: InlineLimitCache,
    reservations: ReservationTable,
    /// Whether the gateway stores the requests that rules defer, and records them itself.
    defers: AtomicBool,
}

impl DecisionService {
    pub(crate) fn new(
        limiter: AnyLimiter,
        clock: Clock,
        telemetry: Arc<Telemetry>,
        bounds: &Bounds,
    ) -> DecisionService {
        let inline_limits = InlineLimitCache::default();
        let reservations = ReservationTable::new(bounds.reservations, bounds.reservation_bytes);
        let defers = AtomicBool::new(false);
        DecisionService(Arc::new(DecisionServiceInner {
            limiter,
            clock,
            telemetry,
            inline_limits,
            reservations,
            defers,
        }))
    }

    /// Sets whether the gateway stores the requests that rules defer.
    pub(crate) fn set_defers(&self, defers: bool) {
        self.0.defers.store(defers, Ordering::Relaxed);
    }

    /// Returns the limiter, which has the rules.
    pub(crate) fn limiter(&self) -> &AnyLimiter {
        &self.0.limiter
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.0.telemetry
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns the store, which has the counters.
    pub(crate) fn store(&self) -> &AnyStore {
        self.0.limiter.store()
    }

    /// Decides by rules for a caller that does not report the end of the request. The permits are
    /// free when their leases end.
    pub(crate) async fn check(&self, door: DoorName, request: &Request<'_>, cost: u64) -> Decision {
        let decision = self.decide(door, request, cost).await;
        decision.admission().into_iter().for_each(Admission::detach);
        decision
    }

    /// Decides by rules.
    async fn decide(&self, door: DoorName, request: &Request<'_>, cost: u64) -> Decision {
        let before = self.0.clock.now();
        let decision = self.0.limiter.decide(request).await;
        self.record(door, &decision, cost, self.0.clock.now().since(before));
        decision
    }

    /// Decides by rules, and returns once the request may go on or is refused. Dropping the future
    /// cancels the request.
    pub(crate) async fn admit(&self, door: DoorName, request: &Request<'_>, cost: u64) -> Decision {
        let before = self.0.clock.now();
        let decision = self.0.limiter.admit(request).await;
        let took = self.0.clock.now().since(before) - decision.wait.into();
        self.record(door, &decision, cost, took);
        decision
    }

    /// Refuses a request that rules are certain to refuse now; returns `None` if it may pass.
    ///
    /// `is_certain` is given the decision of a dry run. A certain refusal is then charged and recorded
    /// like any other, because refused requests can count too.
    pub(crate) async fn refuse(
        &self,
        door: DoorName,
        request: &Request<'_>,
        is_certain: impl Fn(&Decision) -> bool,
    ) -> Option<Decision> {
        if !is_certain(&self.0.limiter.decide(&request.clone().dry_run()).await) {
            return None;
        }
        let before = self.0.clock.now();
        let request = request.clone().to_be_settled(None);
        let mut decision = self.0.limiter.decide(&request).await;
        if decision.allowed {
            // A permit or a refill came in between: the request goes on as if nothing were.
            if let Some(admission) = decision.take_admission() {
                let _ = admission.cancel().await;
            }
            return None;
        }
        self.record(door, &decision, 1, self.0.clock.now().since(before));
        Some(decision)
    }

    /// Records a decision. A deferred request is recorded once it is stored, or cannot be.
    pub(crate) fn record(&self, door: DoorName, decision: &Decision, cost: u64, took: Span) {
        match decision.allowed || !self.is_recorded_later(door, decision) {
            true => self.0.telemetry.record_decision(door, decision, cost, took),
            false => self.0.telemetry.record_duration(door, 1, took),
        }
    }

    #[cold]
    fn is_recorded_later(&self, door: DoorName, decision: &Decision) -> bool {
        door == DoorName::Gateway
            && self.0.defers.load(Ordering::Relaxed)
            && crate::deferred::is_deferrable(decision)
    }

    /// Returns the error text of a decision about a domain without rules. Such a request is an
    /// error of the caller, not a permission.
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

    /// Reads or changes counters.
    pub(crate) async fn adjust<'t, 'r: 't>(
        &self,
        target: impl Into<AdjustTarget<'t, 'r>>,
        adjustment: Adjustment,
    ) -> Result<Decision, StoreError> {
        self.0.limiter.adjust(target, adjustment).await
    }

    /// Returns the inline limit of a text.
    pub(crate) fn inline_limit(&self, text: &str) -> Result<Arc<InlineLimit>, InlineLimitError> {
        self.0.inline_limits.get(text)
    }

    /// Returns the inline limit of a text in another notation; `limit` parses it if it is not
    /// cached.
    pub(crate) fn inline_limit_or(
        &self,
        words: &str,
        limit: impl FnOnce() -> Result<InlineLimit, InlineLimitError>,
    ) -> Result<Arc<InlineLimit>, InlineLimitError> {
        self.0.inline_limits.get_or(words, limit)
    }

    /// Decides by an inline limit.
    pub(crate) async fn check_inline(
        &self,
        door: DoorName,
        key: &[u8],
        inline: &InlineLimit,
        cost: u64,
    ) -> Result<Verdict, StoreError> {
        let before = self.0.clock.now();
        let check = Check { lease: inline.lease(), ..inline.check(key, cost) };
        let action = Action::Take { max_wait: Span::ZERO };
        let verdict = self.store().run(StoreCall { action, checks: &[check] }).await?[0];
        self.record_inline_limit(door, key, &verdict, cost, before);
        Ok(verdict)
    }

    /// Records a decision by inline limits that began at `before`.
    fn record_inline_limit(
        &self,
        door: DoorName,
        key: &[u8],
        verdict: &Verdict,
        cost: u64,
        before: Time,
    ) {
        let span = self.0.clock.now().since(before);
        self.0.telemetry.record_inline_limit(door, key, verdict, cost);
        self.0.telemetry.record_duration(door, 1, span);
        if self.store().memory().is_some() {
            self.0.telemetry.record_store_duration(1, span);
        }
    }

    /// Runs an action on the counter of an inline limit.
    pub(crate) async fn adjust_inline(
        &self,
        action: Action,
        key: &[u8],
        inline: &InlineLimit,
        cost: u64,
    ) -> Result<Verdict, StoreError> {
        let check = inline.check(key, cost);
        Ok(self.store().run(StoreCall { action, checks: &[check] }).await?[0])
    }

    /// Decides many independent requests in memory, each by an inline limit. The clock is read
    /// once, and the waits for memory overlap. `answer` is called in order.
    pub(crate) fn check_each_now(
        &self,
        store: &MemoryStore,
        door: DoorName,
        checks: &[Check<'_>],
        mut answer: impl FnMut(Verdict),
    ) {
        let before = self.0.clock.now();
        let mut asked = checks.iter();
        store.decide_each_now(checks, |verdict| {
            if let Some(Check { key: Key::Bytes(key), cost, .. }) = asked.next() {
                self.0.telemetry.record_inline_limit(door, key, &verdict, *cost);
            }
            answer(verdict);
        });
        let span = self.0.clock.now().since(before);
        self.0.telemetry.record_duration(door, checks.len() as u64, span);
        self.0.telemetry.record_store_duration(checks.len() as u64, span);
    }

    /// Decides many independent requests in a remote store, all at the same time.
    pub(crate) async fn check_each(
        &self,
        store: &SharedStore,
        door: DoorName,
        checks: &[Check<'_>],
    ) -> Vec<Result<Verdict, StoreError>> {
        let before = self.0.clock.now();
        let verdicts = store.decide_each(checks).await;
        for (check, verdict) in checks.iter().zip(&verdicts) {
            if let (Key::Bytes(key), Ok(verdict)) = (check.key, verdict) {
                self.0.telemetry.record_inline_limit(door, key, verdict, check.cost);
            }
        }
        let span = self.0.clock.now().since(before);
        self.0.telemetry.record_duration(door, checks.len() as u64, span);
        verdicts
    }

    /// Decides a rate-limit request of Envoy.
    pub(crate) async fn decide_envoy(
        &self,
        request: &RateLimitRequest<'_>,
    ) -> Result<RateLimitResponse, StoreError> {
        let before = self.0.clock.now();
        let answer = envoy::decide(&self.0.limiter, request).await.inspect_err(|_| {
            self.0.telemetry.record_envoy_error(EnvoyError::Store);
        })?;
        let is_limited = answer.statuses.iter().any(|status| status.current_limit.is_some());
        if !is_limited && !self.0.limiter.rules().has_domain(request.domain) {
            self.0.telemetry.record_unknown_domain();
        }
        self.0.telemetry.record_envoy_response(DoorName::Grpc, request, &answer);
        self.0.telemetry.record_duration(DoorName::Grpc, 1, self.0.clock.now().since(before));
        Ok(answer)
    }
}
