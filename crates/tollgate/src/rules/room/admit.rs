//! Deciding a request and waiting until it may go on.

use std::pin::pin;
use std::time::Duration;

use tollgate_core::Time;

use super::InLine;
use super::newcomer::{Full, Leave};
use super::place::{Charge, Fate, Place, return_all, return_one};
use super::retry::accepted_after;
use super::spot::{Kind, Spot, Turn, Waiting};
use crate::counters::ready;
use crate::rules::Request;
use crate::rules::decide::{Charging, decide};
use crate::rules::decision::{Decision, Reason};
use crate::rules::limiter::{RuleLimiter, Shared};
use crate::{MemoryStore, Store};

/// A request that may go on later: it was given a turn, or may ask again. Dropped, it has left, and
/// what it was charged goes back.
///
/// Comes of [`RuleLimiter::admit_now`].
#[derive(Debug)]
pub struct Waits<S: Store = MemoryStore> {
    limiter: RuleLimiter<S>,
    decision: Box<Decision>,
    began: Time,
}

impl<S: Store> RuleLimiter<S> {
    /// Decides a request, and comes back once it may go on or is refused: a request that a rule
    /// holds back (`then: delay`, `then: queue`, its own [patience](Request::patience)) stands in line
    /// until its turn, and [`Decision::wait`] then says how long it did. Dropped while it waits, it
    /// has left: its place is free, and what it was charged goes back.
    ///
    /// ```
    /// use tollgate::testing::ManualClock;
    /// use tollgate::{Limiter, Request};
    /// use std::time::Duration;
    ///
    /// # let block_on = |future: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     let mut future = future;
    /// #     assert!(future.as_mut().poll(&mut context).is_ready());
    /// # };
    /// # block_on(Box::pin(async {
    /// let rules = "rules: [{ name: orders, limit: 10/s leaky burst 1, then: queue 1 up to 1s }]";
    /// let limiter = Limiter::from_rules(rules.parse().unwrap());
    /// assert!(limiter.admit(&Request::new("POST", "/orders")).await.allowed);
    /// # }));
    /// ```
    pub async fn admit(&self, request: &Request<'_>) -> Decision {
        if self.0.rooms.owe() {
            Box::pin(return_one(&self.0)).await;
        }
        let mut decision = Decision::none();
        decide(&self.0, request, Charging::Real, Turn::Arrives, &mut decision).await;
        match decision.may_wait(request) {
            false => decision,
            // In a box: what is rare must not weigh on every decision.
            true => {
                let began = self.0.clock.now();
                Box::pin(wait(&self.0, (request, &[]), decision, began)).await.0
            }
        }
    }

    /// [`admit`](RuleLimiter::admit) for who may choose among upstreams: none if it is only the
    /// upstream of this request that is full, or that others stand in line for. Nothing is charged
    /// then, nobody waits, and it is no refusal yet: the next upstream is to be asked about, and the
    /// last one by [`admit`](RuleLimiter::admit).
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// # let block_on = |future: std::pin::Pin<Box<dyn Future<Output = ()>>>| {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     let mut future = future;
    /// #     assert!(future.as_mut().poll(&mut context).is_ready());
    /// # };
    /// # block_on(Box::pin(async {
    /// let rules = "rules: [{ name: up, per: upstream, limit: 1 concurrent, then: queue 9 up to 1s }]";
    /// let limiter = Limiter::from_rules(rules.parse().unwrap());
    /// let to = |upstream: &'static str| Request::new("GET", "/").attribute("upstream", upstream);
    /// assert!(limiter.admit_if_free(&to("http://a")).await.is_some_and(|it| it.allowed));
    /// assert!(limiter.admit_if_free(&to("http://a")).await.is_none());
    /// assert!(limiter.admit(&to("http://b")).await.allowed);
    /// # }));
    /// ```
    pub async fn admit_if_free(&self, request: &Request<'_>) -> Option<Decision> {
        if self.0.rooms.owe() {
            Box::pin(return_one(&self.0)).await;
        }
        let mut decision = Decision::none();
        decide(&self.0, request, Charging::Real, Turn::ArrivesIfFree, &mut decision).await;
        match decision.may_wait(request) {
            _ if !decision.allowed && decision.is_about_upstream() => None,
            false => Some(decision),
            true => {
                let began = self.0.clock.now();
                Some(Box::pin(wait(&self.0, (request, &[]), decision, began)).await.0)
            }
        }
    }

    /// [`admit`](RuleLimiter::admit) for the last of several upstreams, `others` of which were found
    /// [full](RuleLimiter::admit_if_free): the request stands in line for its own, and goes wherever
    /// a place comes free that nobody stands in line for. Says which of the others that is, if it is
    /// one of them.
    ///
    /// Places are what comes free, of rules that count `per: upstream` and by nothing else.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Request};
    ///
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// let rules = "rules: [{ name: up, per: upstream, limit: 1 concurrent, then: queue 9 up to 1s }]";
    /// let limiter = Limiter::from_rules(rules.parse().unwrap());
    /// let to = |upstream: &'static str| Request::new("GET", "/").attribute("upstream", upstream);
    /// let busy = ["http://a", "http://b"].map(|upstream| limiter.decide(&to(upstream)));
    ///
    /// let (request, others) = (to("http://b"), [to("http://a")]);
    /// let mut admitted = Box::pin(limiter.admit_at_any(&request, &others));
    /// # assert!(admitted.as_mut().poll(&mut context).is_pending());
    /// limiter.release(&busy[0], Duration::from_millis(7));
    /// // admitted.await
    /// # let std::task::Poll::Ready((decision, other)) = admitted.as_mut().poll(&mut context) else { panic!() };
    /// assert_eq!((decision.allowed, other), (true, Some(0)));
    /// ```
    pub async fn admit_at_any<'r>(
        &self,
        request: &Request<'r>,
        others: &[Request<'r>],
    ) -> (Decision, Option<usize>) {
        if self.0.rooms.owe() {
            Box::pin(return_one(&self.0)).await;
        }
        let mut decision = Decision::none();
        decide(&self.0, request, Charging::Real, Turn::Arrives, &mut decision).await;
        match decision.may_wait(request) {
            false => (decision, None),
            true => {
                let began = self.0.clock.now();
                Box::pin(wait(&self.0, (request, others), decision, began)).await
            }
        }
    }

    /// How many stand in line, for each rule that anybody waits for.
    pub fn waiting(&self) -> Vec<InLine> {
        self.0.rooms.waiting()
    }
}

impl RuleLimiter {
    /// [`admit`](RuleLimiter::admit) for who need not wait: the decision, if there is one at once;
    /// otherwise what to wait for.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    /// let rules = "rules: [{ name: api, limit: 10/s burst 1, then: delay up to 1s }]";
    /// let limiter = Limiter::from_rules(rules.parse()?);
    /// assert!(limiter.admit_now(&Request::empty()).is_ok_and(|decision| decision.allowed));
    /// let waits = limiter.admit_now(&Request::empty()).unwrap_err();
    /// drop(waits); // and leaves
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn admit_now(&self, request: &Request<'_>) -> Result<Decision, Waits> {
        let mut decision = Decision::none();
        ready(pin!(decide(&self.0, request, Charging::Real, Turn::Arrives, &mut decision)));
        if !decision.may_wait(request) {
            return Ok(decision);
        }
        let began = self.0.clock.now();
        Err(Waits { limiter: self.clone(), decision: Box::new(decision), began })
    }
}

impl<S: Store> Waits<S> {
    /// Stands in line until the request may go on or is refused. It is the one that was asked about.
    pub async fn turn(mut self, request: &Request<'_>) -> Decision {
        let decision = std::mem::replace(&mut *self.decision, Decision::none());
        wait(&self.limiter.0, (request, &[]), decision, self.began).await.0
    }
}

impl<S: Store> Drop for Waits<S> {
    fn drop(&mut self) {
        drop(Charge::of(&self.limiter.0, &mut self.decision));
    }
}

impl Decision {
    /// Whether it may be that waiting helps.
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

/// Waits until a request that was answered so may go on, or is refused for good; which of the others
/// it went on as, if not as itself.
async fn wait<'r, S: Store>(
    limiter: &Shared<S>,
    (request, others): (&Request<'r>, &[Request<'r>]),
    mut decision: Decision,
    began: Time,
) -> (Decision, Option<usize>) {
    let waiting = Waiting { limiter, request, others, began };
    let mut place = None;
    loop {
        let now = limiter.clock.now();
        let Some(spot) = waiting.spot(&decision, now) else {
            drop(place.take());
            if decision.allowed {
                limiter.clock.sleep_until(now + decision.wait.into()).await;
            }
            return (waiting.told(decision).await, None);
        };
        let charge = decision.allowed.then(|| Charge::of(limiter, &mut decision));
        let stands = match (&spot.kind, place.take()) {
            // Refused again where it stands: it stays there.
            (Kind::Line(again), Some(stood)) if Place::is_at(&stood, &spot) => {
                stood.refused(*again);
                Ok(stood)
            }
            (_, stood) => Place::take(limiter, &spot, charge, stood),
        };
        let fate = match stands {
            Ok(stands) => stands.wait().await,
            Err(Full(next_free)) => {
                return (waiting.refused(decision, &spot, next_free).await, None);
            }
        };
        match (fate, &spot.kind) {
            (Fate::Ask(stands), _) => place = Some(stands),
            (Fate::Go(charge), Kind::Slot { not_before, .. }) => {
                // Its turn may come sooner than another limit lets it.
                limiter.clock.sleep_until(*not_before).await;
                charge.into_iter().for_each(|charge| charge.keep(&mut decision));
                return (waiting.told(decision).await, None);
            }
            // Its time is up: it asks a last time.
            (Fate::Lost(Leave { is_late: true, .. }), Kind::Line(_)) => {}
            (Fate::Lost(Leave { next_free, .. }), _) => {
                return (waiting.refused(decision, &spot, next_free).await, None);
            }
            (Fate::Go(_), Kind::Line(_)) => {}
        }
        let waited = limiter.clock.now().since(began).into();
        decision = Decision::none();
        decide(limiter, request, Charging::Real, Turn::Waited(waited), &mut decision).await;
        if spot.newcomer.roams
            && !decision.allowed
            && let Some((number, found)) = waiting.elsewhere(waited).await
        {
            drop(place.take());
            return (waiting.told(found).await, Some(number));
        }
    }
}

impl<S: Store> Waiting<'_, '_, S> {
    /// Asks about the other upstreams: the first that is free, and what it was told there.
    async fn elsewhere(&self, waited: Duration) -> Option<(usize, Decision)> {
        for (number, other) in self.others.iter().enumerate() {
            let mut found = Decision::none();
            decide(self.limiter, other, Charging::Real, Turn::Roams(waited), &mut found).await;
            if found.allowed && found.wait.is_zero() {
                return Some((number, found));
            }
            drop(Charge::of(self.limiter, &mut found));
        }
        None
    }

    /// The last word of a store: it waited so long, or would be accepted then.
    async fn told(&self, mut decision: Decision) -> Decision {
        if decision.allowed {
            decision.wait = self.limiter.clock.now().since(self.began).into();
            return decision;
        }
        return_all(self.limiter).await;
        let Some(rules) = &decision.rules else { return decision };
        let refused = decision.limits.iter().filter(|it| it.enforced && !it.verdict.allowed);
        let accepted = refused.filter_map(|limit| {
            let rule = &rules.rules[limit.rule as usize];
            accepted_after(rule, limit, self.patience(rule))
        });
        // Without a word from a limit it was refused for another reason.
        if let Some(after) = accepted.max() {
            decision.retry_after = Some(after.into());
        }
        decision
    }

    /// There is no place, or no longer one; one comes free at that time.
    async fn refused(
        &self,
        mut decision: Decision,
        spot: &Spot,
        next_free: Option<Time>,
    ) -> Decision {
        return_all(self.limiter).await;
        decision.allowed = false;
        decision.reason = Reason::OverLimit;
        decision.code = spot.rule().then.status();
        decision.rule = Some(spot.rule);
        decision.key = Some(spot.newcomer.key[..].into());
        decision.wait = Duration::ZERO;
        let now = self.limiter.clock.now();
        decision.retry_after = Some(next_free.map_or(Duration::ZERO, |at| at.since(now).into()));
        decision
    }
}
