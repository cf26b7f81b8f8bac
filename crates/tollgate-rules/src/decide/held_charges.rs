//! The charges of a request while they may still change: permits in flight, a slot that may be
//! released, a cost that is settled by the outcome.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Span, Time};

use crate::actions::fair::Claims;
use crate::compile::domain::{BoundLimit, CompiledDomain};
use crate::decide::limiter::LimiterState;
use crate::decide::settlement_progress::{SettlementProgress, SettlementStep};
use crate::matching::request::OutcomeTracking;
use crate::matching::rule_checks::LimitCheckKind;
use tollgate::StoreError;
use tollgate::limit::LimitAlgorithm;
use tollgate::{Action, Store, StoreCall};
use tollgate::{Check, Key};

/// The charges of a request.
#[derive(Clone, Debug)]
pub(crate) struct HeldCharges {
    lease: u64,
    /// The rules of the decision.
    pub(crate) rules: Arc<CompiledDomain>,
    pub(crate) charges: Vec<HeldCharge>,
    /// The time of the charge.
    pub(crate) since: Time,
    /// How long a refund is possible, if the rules do not determine it.
    pub(crate) open: Option<Duration>,
    /// The claims on fair shares.
    pub(crate) fair: Option<Arc<Claims>>,
    /// Whether the charge was made in this process, because the store did not answer.
    pub(crate) is_local: bool,
    /// Whether the caller settles the reservation, within its own time.
    pub(crate) is_reservation: bool,
    /// The progress of settling the charges, which happens once.
    pub(crate) progress: Arc<SettlementProgress>,
}

/// The charge of one limit that allowed a request.
#[derive(Clone, Debug)]
pub(crate) struct HeldCharge {
    pub(crate) rule: u32,
    pub(crate) bound: BoundLimit,
    pub(crate) key: Box<[u8]>,
    pub(crate) cost: u64,
    /// Whether the cost was charged; otherwise the limit was only checked.
    pub(crate) charged: bool,
    pub(crate) kind: LimitCheckKind,
    /// How long after the charge the limit is full again, as far as known.
    pub(crate) reset_after: Span,
}

/// Whether a limit is on concurrency: its permits are held and returned, not spent.
pub(crate) fn holds_permits(bound: &BoundLimit) -> bool {
    matches!(bound.limit.algorithm(), LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_))
}

impl HeldCharges {
    pub(crate) fn new(
        lease: u64,
        rules: Arc<CompiledDomain>,
        charges: Vec<HeldCharge>,
        since: Time,
        tracking: OutcomeTracking,
        is_local: bool,
    ) -> HeldCharges {
        let (open, is_reservation) = match tracking {
            OutcomeTracking::Always(within) => (within, true),
            _ => (None, false),
        };
        let progress = Arc::default();
        HeldCharges {
            lease,
            rules,
            charges,
            since,
            open,
            fair: None,
            is_local,
            is_reservation,
            progress,
        }
    }

    /// Moves the charges out.
    pub(crate) fn take(&mut self) -> HeldCharges {
        let (charges, fair) = (std::mem::take(&mut self.charges), self.fair.take());
        HeldCharges {
            rules: self.rules.clone(),
            charges,
            fair,
            progress: self.progress.clone(),
            ..*self
        }
    }

    /// Whether the end of the request returns permits or a share of them.
    pub(crate) fn needs_release(&self) -> bool {
        self.fair.is_some() || self.has_permits()
    }

    /// Whether the request holds permits.
    pub(crate) fn has_permits(&self) -> bool {
        self.charges.iter().any(HeldCharge::is_permit)
    }

    /// Returns the permits of a request that ended.
    pub(crate) async fn release<S: Store>(
        &self,
        limiter: &LimiterState<S>,
        rtt: Span,
        dropped: bool,
    ) -> Result<(), StoreError> {
        if let Some(fair) = &self.fair {
            fair.release();
        }
        self.run(limiter, Action::Release { rtt, dropped }, HeldCharge::is_permit).await
    }

    /// Renews the leases of a request that is still in flight.
    pub(crate) async fn renew<S: Store>(
        &self,
        limiter: &LimiterState<S>,
    ) -> Result<(), StoreError> {
        self.run(limiter, Action::Renew, HeldCharge::is_permit).await
    }

    /// Takes the permits of a request that was admitted by another process.
    pub(crate) async fn retake<S: Store>(
        &self,
        limiter: &LimiterState<S>,
    ) -> Result<(), StoreError> {
        self.run(limiter, Action::Take { max_wait: Span::ZERO }, HeldCharge::is_permit).await
    }

    /// Returns the lease id of the permits.
    pub(crate) fn lease(&self) -> u64 {
        self.lease
    }

    /// Returns the shortest lease of the permits; none without permits.
    pub(crate) fn shortest_lease(&self) -> Option<Span> {
        let lease = |charge: &HeldCharge| match charge.bound.limit.algorithm() {
            LimitAlgorithm::Concurrent(permits) => Some(permits.lease()),
            LimitAlgorithm::Adaptive(range) => Some(range.lease),
            _ => None,
        };
        self.charges.iter().filter(|charge| charge.charged).filter_map(lease).min()
    }

    /// Refunds all charges of a request that never proceeded.
    pub(crate) async fn refund<S: Store>(
        &self,
        limiter: &LimiterState<S>,
    ) -> Result<(), StoreError> {
        if let Some(fair) = &self.fair {
            fair.cancel();
        }
        let step = self.progress.begin();
        let is_open = step != SettlementStep::Nothing;
        let refunded = self
            .run(limiter, Action::Refund, |charge| {
                charge.charged && (is_open || charge.is_permit())
            })
            .await;
        if let Err(error) = &refunded
            && is_open
            && error.kind().did_nothing()
        {
            self.progress.reopen(step, limiter.clock.now());
        }
        refunded
    }

    async fn run<S: Store>(
        &self,
        limiter: &LimiterState<S>,
        action: Action,
        wanted: impl Fn(&HeldCharge) -> bool,
    ) -> Result<(), StoreError> {
        let charges = self.charges.iter().filter(|charge| wanted(charge));
        let checks: SmallVec<[Check<'_>; 4]> =
            charges.map(|charge| charge.check(self.lease)).collect();
        if checks.is_empty() {
            return Ok(());
        }
        let call = StoreCall { action, checks: &checks };
        match limiter.local.get().filter(|_| self.is_local) {
            Some(local) => local.store.run(call).await.map(drop),
            None => limiter.store.run(call).await.map(drop),
        }
    }
}

impl HeldCharge {
    pub(crate) fn is_permit(&self) -> bool {
        self.charged && holds_permits(&self.bound)
    }

    fn check(&self, lease: u64) -> Check<'_> {
        let BoundLimit { counter, limit } = &self.bound;
        Check { lease, ..Check::new(*counter, Key::Bytes(&self.key), limit, self.cost) }
    }
}
