//! Decides a request and waits until it may proceed.

use std::pin::pin;
use std::time::Duration;

use tollgate_core::Time;

use super::accepted_after::accepted_after;
use super::queue_entry::{Departure, QueueFull};
use super::queue_guard::{QueueGuard, UnusedCharge, WaitOutcome};
use super::queue_spec::{AttemptKind, QueueMode, QueueSpec, WaitingRequest};
use crate::Request;
use crate::decide::decide_request::{Charging, decide};
use crate::decide::decision::{Decision, Reason};
use crate::decide::limiter::{LimiterState, RuleLimiter};
use crate::decide::ready::ready;
use tollgate::{MemoryStore, Store};

/// A request that waits in a queue. Returned by [`RuleLimiter::admit_now`].
///
/// Dropping it cancels the request and refunds its charges.
#[derive(Debug)]
pub struct QueuedRequest<S: Store = MemoryStore> {
    limiter: RuleLimiter<S>,
    decision: Box<Decision>,
    began: Time,
}

impl<S: Store + 'static> RuleLimiter<S> {
    /// Decides a request and returns when it may proceed or is refused.
    ///
    /// A request that a rule delays (`then: delay`, `then: queue`, its own
    /// [patience](Request::patience)) waits for its turn; [`Decision::wait`] is the time it waited.
    /// Dropping the future cancels the request: it leaves the queue and its charges are refunded.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// # let block_on = |future: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     let mut future = future;
    /// #     assert!(future.as_mut().poll(&mut context).is_ready());
    /// # };
    /// # block_on(Box::pin(async {
    /// let rules = "rules: [{ name: orders, limit: 10/s leaky burst 1, then: queue 1 up to 1s }]";
    /// let limiter = RuleLimiter::new(rules.parse().unwrap());
    /// assert!(limiter.admit(&Request::new("POST", "/orders")).await.allowed);
    /// # }));
    /// ```
    pub async fn admit(&self, request: &Request<'_>) -> Decision {
        self.return_pending().await;
        let mut decision = Decision::none();
        decide(&self.0, request, Charging::Real, AttemptKind::Arrival, &mut decision).await;
        self.wait(request, (&[], ""), decision).await.0
    }

    /// Admits a request as any of several alternatives and returns the index of the chosen one.
    ///
    /// The alternatives differ in one attribute, such as the server they would be sent to. They are
    /// tried in order; the first that is not refused by a rule counting by that attribute decides.
    /// If all are full, the request waits in the queue of the last one, and proceeds as the first
    /// alternative with a permit that no other request waits for.
    ///
    /// ```
    /// use tollgate_rules::{Outcome, Request, RuleLimiter};
    ///
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// let rules = "attributes: [node]\nrules: [{ name: db, per: node, limit: 1 concurrent, then: queue 9 up to 1s }]";
    /// let limiter = RuleLimiter::new(rules.parse().unwrap());
    /// let nodes = ["a", "b"].map(|node| Request::empty().attribute("node", node));
    /// let mut busy = nodes.clone().map(|node| limiter.decide_now(&node).take_admission());
    ///
    /// let mut admitted = Box::pin(limiter.admit_any(&nodes, "node"));
    /// # assert!(admitted.as_mut().poll(&mut context).is_pending());
    /// drop(busy[0].take());
    /// // admitted.await
    /// # let std::task::Poll::Ready((decision, alternative)) = admitted.as_mut().poll(&mut context) else { panic!() };
    /// assert_eq!((decision.allowed, alternative), (true, 0));
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no alternatives.
    pub async fn admit_any<'r>(
        &self,
        alternatives: &[Request<'r>],
        attribute: &str,
    ) -> (Decision, usize) {
        let (last, others) = alternatives.split_last().expect("there is an alternative");
        self.return_pending().await;
        for (number, request) in others.iter().enumerate() {
            let mut decision = Decision::none();
            let attempt = AttemptKind::ArrivalIfFree(attribute);
            decide(&self.0, request, Charging::Real, attempt, &mut decision).await;
            if decision.allowed || !decision.is_counted_by(attribute) {
                return (self.wait(request, (&[], ""), decision).await.0, number);
            }
        }
        let mut decision = Decision::none();
        decide(&self.0, last, Charging::Real, AttemptKind::Arrival, &mut decision).await;
        let (decision, other) = self.wait(last, (others, attribute), decision).await;
        (decision, other.unwrap_or(others.len()))
    }

    /// Waits where waiting can help; returns the index of the other alternative it proceeded as, if
    /// any.
    async fn wait<'r>(
        &self,
        request: &Request<'r>,
        others: (&[Request<'r>], &str),
        mut decision: Decision,
    ) -> (Decision, Option<usize>) {
        let mut other = None;
        if decision.may_wait(request) {
            let began = self.0.clock.now();
            // Waiting is rare, so its future is boxed to keep the future of every decision small.
            let waited = Box::pin(wait(&self.0, (request, others), decision, began));
            (decision, other) = waited.await;
        }
        self.attach(Charging::Real, &mut decision);
        (decision, other)
    }
}

impl RuleLimiter {
    /// Admits a request that need not wait; otherwise returns the queued request.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let rules = "rules: [{ name: api, limit: 10/s burst 1, then: delay up to 1s }]";
    /// let limiter = RuleLimiter::new(rules.parse()?);
    /// assert!(limiter.admit_now(&Request::empty()).is_ok_and(|decision| decision.allowed));
    /// let waits = limiter.admit_now(&Request::empty()).unwrap_err();
    /// drop(waits); // and leaves
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn admit_now(&self, request: &Request<'_>) -> Result<Decision, QueuedRequest> {
        let mut decision = Decision::none();
        ready(pin!(decide(&self.0, request, Charging::Real, AttemptKind::Arrival, &mut decision)));
        if !decision.may_wait(request) {
            self.attach(Charging::Real, &mut decision);
            return Ok(decision);
        }
        let began = self.0.clock.now();
        Err(QueuedRequest { limiter: self.clone(), decision: Box::new(decision), began })
    }
}

impl<S: Store + 'static> QueuedRequest<S> {
    /// Waits until the request, which must be the one that was decided, may proceed or is refused.
    pub async fn wait(mut self, request: &Request<'_>) -> Decision {
        let decision = std::mem::replace(&mut *self.decision, Decision::none());
        let waited = wait(&self.limiter.0, (request, (&[], "")), decision, self.began);
        let (mut decision, _) = waited.await;
        self.limiter.attach(Charging::Real, &mut decision);
        decision
    }
}

impl<S: Store> Drop for QueuedRequest<S> {
    fn drop(&mut self) {
        drop(UnusedCharge::take_from(&self.limiter.0, &mut self.decision));
    }
}

impl Decision {
    /// Whether waiting may help.
    #[inline]
    fn may_wait(&self, request: &Request<'_>) -> bool {
        match self.allowed {
            true => !self.wait.is_zero(),
            false => {
                let patience = || self.then().map_or(Duration::ZERO, |then| then.patience());
                self.reason == Reason::OverLimit
                    && (!request.patience.is_zero() || !patience().is_zero())
            }
        }
    }
}

/// Waits until a decided request may proceed or is finally refused; returns the index of the other
/// alternative it proceeded as, if any.
async fn wait<'r, S: Store>(
    limiter: &LimiterState<S>,
    (request, (others, attribute)): (&Request<'r>, (&[Request<'r>], &str)),
    mut decision: Decision,
    began: Time,
) -> (Decision, Option<usize>) {
    let waiting = WaitingRequest { limiter, request, others, attribute, began };
    let mut guard = None;
    loop {
        let now = limiter.clock.now();
        let Some(spec) = waiting.spec(&decision, now) else {
            drop(guard.take());
            if decision.allowed {
                limiter.clock.sleep_until(now + decision.wait.into()).await;
            }
            return (waiting.finish(decision).await, None);
        };
        let charge = decision.allowed.then(|| UnusedCharge::take_from(limiter, &mut decision));
        let joined = match (&spec.kind, guard.take()) {
            // A request that is refused again keeps its queue position.
            (QueueMode::Retry(retry), Some(waited_in)) if QueueGuard::is_for(&waited_in, &spec) => {
                waited_in.refused(*retry);
                Ok(waited_in)
            }
            (_, waited_in) => QueueGuard::take(limiter, &spec, charge, waited_in),
        };
        let outcome = match joined {
            Ok(guard) => guard.wait().await,
            Err(QueueFull(next_free)) => {
                return (waiting.refused(decision, &spec, next_free).await, None);
            }
        };
        match (outcome, &spec.kind) {
            (WaitOutcome::Retry(kept), _) => guard = Some(kept),
            (WaitOutcome::Go(charge), QueueMode::Slot { not_before, .. }) => {
                // The slot of one limit may come before another limit allows the request.
                limiter.clock.sleep_until(*not_before).await;
                charge.into_iter().for_each(|charge| charge.keep(&mut decision));
                return (waiting.finish(decision).await, None);
            }
            // The patience is used up: the request tries a last time.
            (WaitOutcome::Left(Departure { is_late: true, .. }), QueueMode::Retry(_)) => {}
            (WaitOutcome::Left(Departure { next_free, .. }), _) => {
                return (waiting.refused(decision, &spec, next_free).await, None);
            }
            (WaitOutcome::Go(_), QueueMode::Retry(_)) => {}
        }
        let waited = limiter.clock.now().since(began).into();
        decision = Decision::none();
        decide(limiter, request, Charging::Real, AttemptKind::AfterWait(waited), &mut decision)
            .await;
        if spec.entry.accepts_alternatives
            && !decision.allowed
            && let Some((number, found)) = waiting.try_alternatives(waited).await
        {
            drop(guard.take());
            return (waiting.finish(found).await, Some(number));
        }
    }
}

impl<S: Store> WaitingRequest<'_, '_, S> {
    /// Tries the other alternatives; returns the first that is free, and its decision.
    async fn try_alternatives(&self, waited: Duration) -> Option<(usize, Decision)> {
        for (number, other) in self.others.iter().enumerate() {
            let mut found = Decision::none();
            decide(
                self.limiter,
                other,
                Charging::Real,
                AttemptKind::Alternative(waited, self.attribute),
                &mut found,
            )
            .await;
            if found.allowed && found.wait.is_zero() {
                return Some((number, found));
            }
            drop(UnusedCharge::take_from(self.limiter, &mut found));
        }
        None
    }

    /// Completes a final decision with the time waited or the time until a retry can succeed.
    async fn finish(&self, mut decision: Decision) -> Decision {
        if decision.allowed {
            decision.wait = self.limiter.clock.now().since(self.began).into();
            return decision;
        }
        self.limiter.return_all().await;
        let Some(rules) = &decision.rules else { return decision };
        let refused = decision.limits.iter().filter(|it| it.enforced && !it.verdict.allowed);
        let accepted = refused.filter_map(|limit| {
            let rule = &rules.rules[limit.rule as usize];
            accepted_after(rule, limit, self.patience(rule))
        });
        // If no limit gives a time, the request was refused for another reason.
        if let Some(after) = accepted.max() {
            decision.retry_after = Some(after.into());
        }
        decision
    }

    /// Refuses a request that has no queue position; `next_free` is when one becomes free.
    async fn refused(
        &self,
        mut decision: Decision,
        spec: &QueueSpec,
        next_free: Option<Time>,
    ) -> Decision {
        self.limiter.return_all().await;
        decision.allowed = false;
        decision.reason = Reason::OverLimit;
        decision.code = spec.rule().then.status();
        decision.rule = Some(spec.rule);
        decision.key = Some(spec.entry.key[..].into());
        decision.wait = Duration::ZERO;
        let now = self.limiter.clock.now();
        decision.retry_after = Some(next_free.map_or(Duration::ZERO, |at| at.since(now).into()));
        decision
    }
}
