//! The tenants that share one counter.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::fair::{Claim, FairPermits, FairPermitsState, FairShares, FairSharesState};
use tollgate_core::{Span, Time};

use crate::compile::domain::CompiledDomain;
use tollgate::limit::{Limit, LimitAlgorithm};

/// The shares of one counter.
#[derive(Debug)]
pub(super) struct ShareTable {
    pub(super) rules: Arc<CompiledDomain>,
    rule: u32,
    algorithm: ShareAlgorithm,
}

#[derive(Debug)]
enum ShareAlgorithm {
    Rate(FairShares, Mutex<FairSharesState>),
    Permits(FairPermits, Mutex<FairPermitsState>),
}

impl ShareTable {
    pub(super) fn new(rules: Arc<CompiledDomain>, rule: u32, limit: &Limit) -> ShareTable {
        let rate = |rate, period, burst| {
            ShareAlgorithm::Rate(FairShares::new(rate, period, burst), Mutex::default())
        };
        let permits = |lease| {
            ShareAlgorithm::Permits(FairPermits::new(limit.capacity(), lease), Mutex::default())
        };
        let algorithm = match limit.algorithm() {
            LimitAlgorithm::Meter(meter) => {
                let parts = meter.parts();
                rate(parts.rate, Span::from_nanos(parts.period), limit.capacity())
            }
            LimitAlgorithm::Concurrent(concurrent) => permits(concurrent.lease()),
            LimitAlgorithm::Adaptive(_) => permits(limit.fill_time()),
            // For shares, a window counts as a rate that refills within the window.
            _ => rate(limit.capacity(), limit.fill_time(), limit.capacity()),
        };
        ShareTable { rules, rule, algorithm }
    }

    pub(super) fn rule_name(&self) -> &str {
        self.rules.rules.get(self.rule as usize).map_or("", |rule| &rule.name)
    }

    pub(super) fn tenants(&self, now: Time) -> usize {
        match &self.algorithm {
            ShareAlgorithm::Rate(fair, state) => fair.tenants(&state.lock(), now),
            ShareAlgorithm::Permits(fair, state) => fair.tenants(&state.lock(), now),
        }
    }

    pub(super) fn claim(&self, now: Time, tenant: u64, cost: u64, nodes: u64) -> Claim {
        match &self.algorithm {
            ShareAlgorithm::Rate(fair, state) => {
                fair.across_nodes(nodes).claim(&mut state.lock(), now, tenant, cost)
            }
            ShareAlgorithm::Permits(fair, state) => {
                fair.across_nodes(nodes).claim(&mut state.lock(), now, tenant, cost)
            }
        }
    }

    /// Returns the claim that a request would get, without recording it.
    pub(super) fn preview_claim(&self, now: Time, tenant: u64, cost: u64, nodes: u64) -> Claim {
        match &self.algorithm {
            ShareAlgorithm::Rate(fair, state) => {
                let mut copy = state.lock().clone();
                fair.across_nodes(nodes).claim(&mut copy, now, tenant, cost)
            }
            ShareAlgorithm::Permits(fair, state) => {
                let mut copy = state.lock().clone();
                fair.across_nodes(nodes).claim(&mut copy, now, tenant, cost)
            }
        }
    }

    /// Cancels a claim that was refused or refunded.
    pub(super) fn cancel(&self, claim: &Claim) {
        match &self.algorithm {
            ShareAlgorithm::Rate(fair, state) => fair.cancel(&mut state.lock(), claim),
            ShareAlgorithm::Permits(fair, state) => fair.release(&mut state.lock(), claim),
        }
    }

    /// Confirms a claim; the counter has `remaining` of `limit` left.
    pub(super) fn confirm(&self, claim: &Claim, now: Time, limit: u64, remaining: u64, nodes: u64) {
        match &self.algorithm {
            ShareAlgorithm::Rate(fair, state) => {
                fair.across_nodes(nodes).confirm(&mut state.lock(), now, claim, remaining);
            }
            // An adaptive limit may have changed.
            ShareAlgorithm::Permits(fair, state) => fair.set_limit(&mut state.lock(), limit),
        }
    }

    /// Releases a permit. What was spent of a rate stays spent.
    pub(super) fn release(&self, claim: &Claim) {
        if let ShareAlgorithm::Permits(fair, state) = &self.algorithm {
            fair.release(&mut state.lock(), claim);
        }
    }
}
