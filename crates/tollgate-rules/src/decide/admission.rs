//! What an admitted request holds until it ends: permits, charges to be settled, fair shares.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_core::Time;

use crate::Request;
use crate::compile::domain::CompiledRule;
use crate::decide::held_charges::HeldCharges;
use crate::decide::limiter::LimiterState;
use crate::decide::maintenance::{Leases, Maintenance};
use crate::decide::outcome::{Outcome, Truth};
use crate::decide::pending_returns::PendingReturn;
use crate::decide::settle_charges::settle_charges;
use tollgate::{Clock, Store, StoreError};

/// A future whose type does not name the store.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A guard for what an admitted request holds until it ends.
///
/// Holds are permits of concurrency limits, charges whose amount depends on the outcome, and fair
/// shares. [`settle`](Admission::settle) ends the request with its outcome,
/// [`cancel`](Admission::cancel) undoes it. When the last clone is dropped the permits come back and
/// the charges stay. Permits of a request that outlasts their leases are renewed while the guard
/// lives, as long as the [maintenance](Admission::maintenance) runs.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
///
/// let limiter = RuleLimiter::new("rules: [{ name: db, limit: 1 concurrent }]".parse()?);
/// let request = Request::new("GET", "/");
/// let admission = limiter.decide_now(&request).take_admission();
/// assert!(!limiter.decide_now(&request).allowed);
/// drop(admission);
/// assert!(limiter.decide_now(&request).allowed);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone)]
#[must_use = "dropping it returns the permits of the request"]
pub struct Admission(Arc<AdmissionState>);

pub(crate) struct AdmissionState {
    pub(crate) held: HeldCharges,
    began: Time,
    limiter: Arc<dyn AdmissionLimiter>,
    /// Whether its permits were returned, or left to their leases.
    is_over: AtomicBool,
    /// Whether its leases are renewed.
    is_renewed: AtomicBool,
}

/// The limiter of an admission, with its store type erased.
pub(crate) trait AdmissionLimiter: Send + Sync {
    fn clock(&self) -> &Clock;

    fn leases(&self) -> &Leases;

    /// Charges or refunds the difference to the actual cost.
    fn settle_charges<'a>(
        &'a self,
        held: &'a HeldCharges,
        request: &'a Request<'_>,
        truth: Truth,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns permits.
    fn release<'a>(
        &'a self,
        held: &'a HeldCharges,
        took: Duration,
        dropped: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns permits and refunds charges.
    fn refund<'a>(&'a self, held: &'a HeldCharges) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the permits of a dropped guard, now or later.
    fn release_dropped(&self, held: HeldCharges);

    /// Renews due leases, returns what dropped guards hold, and returns when to run again.
    fn maintain(&self) -> BoxFuture<'_, Option<Duration>>;
}

impl<S: Store + 'static> AdmissionLimiter for LimiterState<S> {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn leases(&self) -> &Leases {
        &self.leases
    }

    fn settle_charges<'a>(
        &'a self,
        held: &'a HeldCharges,
        request: &'a Request<'_>,
        truth: Truth,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            settle_charges(self, held, request, truth).await?;
            // Waiting requests may proceed with the refunded capacity.
            self.queues.wake_all();
            Ok(())
        })
    }

    fn release<'a>(
        &'a self,
        held: &'a HeldCharges,
        took: Duration,
        dropped: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            held.release(self, took.into(), dropped).await?;
            self.queues.released(held);
            Ok(())
        })
    }

    fn refund<'a>(&'a self, held: &'a HeldCharges) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            held.refund(self).await?;
            self.queues.released(held);
            Ok(())
        })
    }

    fn release_dropped(&self, held: HeldCharges) {
        self.return_later(PendingReturn::Permits(held));
    }

    fn maintain(&self) -> BoxFuture<'_, Option<Duration>> {
        Box::pin(self.maintain())
    }
}

impl Admission {
    pub(crate) fn new<S: Store + 'static>(
        limiter: &Arc<LimiterState<S>>,
        held: HeldCharges,
    ) -> Admission {
        Admission(Arc::new(AdmissionState {
            held,
            began: limiter.clock.now(),
            limiter: limiter.clone(),
            is_over: AtomicBool::new(false),
            is_renewed: AtomicBool::new(false),
        }))
    }

    /// Ends the request: settles its charges by the outcome and returns its permits.
    ///
    /// Charges are settled once, by the first clone, on the charged counters and by the rules of
    /// the decision. If the store does not answer, the charge stays; an overrun is charged when the
    /// store next decides on the counter. After an error, call it again: refunds that the store
    /// [certainly did not execute](tollgate::StoreErrorKind::did_nothing) are repeated, others are not.
    ///
    /// ```
    /// use tollgate_rules::{Outcome, Request, RuleLimiter};
    ///
    /// # futures_lite(async {
    /// let rules = "rules: [{ name: login, per: ip, limit: 3/h, count: response.status == 401 }]";
    /// let limiter = RuleLimiter::new(rules.parse().unwrap());
    /// let login = Request::new("POST", "/login").attribute("ip", "203.0.113.7");
    /// for status in [401, 200, 401, 200, 401] {
    ///     let mut decision = limiter.decide(&login).await;
    ///     assert!(decision.allowed);
    ///     let admission = decision.take_admission().unwrap();
    ///     let answered = login.clone().attribute("response.status", status);
    ///     admission.settle(Outcome::of(&answered)).await.unwrap();
    /// }
    /// assert!(!limiter.decide(&login).await.allowed); // three wrong passwords
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn settle(&self, outcome: Outcome<'_, '_>) -> Result<(), StoreError> {
        let settled = match outcome.truth {
            Some((request, truth)) => {
                self.0.limiter.settle_charges(&self.0.held, request, truth).await
            }
            None => Ok(()),
        };
        let release = || self.0.limiter.release(&self.0.held, outcome.took, outcome.dropped);
        settled.and(self.end(release).await)
    }

    /// Settles the charges of a request that is still in flight: its permits stay taken.
    ///
    /// `outcome` is the request that was decided, with what is known of the answer as attributes.
    pub async fn settle_early(&self, outcome: &Request<'_>) -> Result<(), StoreError> {
        self.0.limiter.settle_charges(&self.0.held, outcome, Truth::Outcome).await
    }

    /// Cancels a request that never proceeded: returns its permits and refunds all charges.
    ///
    /// After an error it can be called again, as [`settle`](Admission::settle) can.
    pub async fn cancel(&self) -> Result<(), StoreError> {
        self.end(|| self.0.limiter.refund(&self.0.held)).await
    }

    /// Leaves permits to their leases: dropping the guard no longer returns them.
    ///
    /// For callers that never learn when a request ends.
    pub fn detach(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.stop_renewal();
    }

    /// Returns permits, once. If that fails or is cancelled, dropping the guard returns them.
    async fn end<'a>(
        &'a self,
        run: impl FnOnce() -> BoxFuture<'a, Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        if self.0.is_over.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let reopen = Reopen(&self.0.is_over);
        self.0.stop_renewal();
        run().await?;
        std::mem::forget(reopen);
        Ok(())
    }

    /// The charges of the request.
    pub(crate) fn held(&self) -> &HeldCharges {
        &self.0.held
    }

    /// Whether it holds permits of concurrency limits.
    pub fn holds_permits(&self) -> bool {
        self.0.held.has_permits()
    }

    /// Whether a rule counts outcomes or settles costs, so that the outcome matters.
    pub fn has_outcome(&self) -> bool {
        self.rules().any(CompiledRule::has_outcome)
    }

    /// The response attributes that rules read, such as `response.status`. May contain duplicates.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let limiter = RuleLimiter::new("
    /// rules: [{ name: login, limit: 5/min, count: 'response.status in [401, 403]' }]
    /// ".parse()?);
    /// let admission = limiter.decide_now(&Request::empty()).take_admission().unwrap();
    /// assert_eq!(admission.response_attributes().collect::<Vec<_>>(), ["response.status"]);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn response_attributes(&self) -> impl Iterator<Item = &str> {
        self.rules().flat_map(|rule| rule.outcome.iter()).map(|name| &**name)
    }

    /// How long after the decision a charge may still be refunded.
    pub fn expires_after(&self) -> Option<Duration> {
        self.0.held.open.or_else(|| self.rules().map(CompiledRule::expire).max())
    }

    /// The total length of the charged keys, in bytes, to account for its memory.
    pub fn key_bytes(&self) -> usize {
        self.0.held.charges.iter().map(|charge| charge.key.len()).sum()
    }

    /// How long ago the request was admitted.
    pub fn elapsed(&self) -> Duration {
        self.0.limiter.clock().now().since(self.0.began).into()
    }

    /// The maintenance of the limiter, if this admission needs it and no other task runs it.
    ///
    /// The caller must [run](Maintenance::run) it until it ends.
    pub fn maintenance(&self) -> Option<Maintenance> {
        self.0.is_renewed.load(Ordering::Relaxed).then(|| Maintenance::claim(&self.0.limiter))?
    }

    /// Adds the permits to those whose leases are renewed. Reservations have their own expiry.
    pub(crate) fn renew_leases(&self) {
        let state = &self.0;
        if !state.held.is_reservation
            && let Some(lease) = state.held.shortest_lease()
            && !state.is_renewed.swap(true, Ordering::Relaxed)
        {
            let now = state.limiter.clock().now();
            state.limiter.leases().add(state.held.lease(), Arc::downgrade(state), lease, now);
        }
    }

    /// The rules whose charges may still change.
    fn rules(&self) -> impl Iterator<Item = &CompiledRule> {
        let held = &self.0.held;
        held.charges.iter().filter_map(|charge| held.rules.rules.get(charge.rule as usize))
    }
}

impl AdmissionState {
    fn stop_renewal(&self) {
        if self.is_renewed.swap(false, Ordering::Relaxed) {
            self.limiter.leases().remove(self.held.lease());
        }
    }
}

impl Drop for AdmissionState {
    fn drop(&mut self) {
        self.stop_renewal();
        if !*self.is_over.get_mut() && self.held.needs_release() {
            self.limiter.release_dropped(self.held.take());
        }
    }
}

/// Marks the permits as still taken when dropped; forgotten if they were returned.
struct Reopen<'a>(&'a AtomicBool);

impl Drop for Reopen<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.0.held).finish()
    }
}

impl fmt::Debug for AdmissionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdmissionState").field(&self.held).finish()
    }
}
