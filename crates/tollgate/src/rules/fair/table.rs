//! Who shares one counter.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::fair::{Claim, Fair, FairPlaces, FairState, PlacesState};
use tollgate_core::{Span, Time};

use super::super::compiled::Compiled;
use crate::limit::{Engine, Limit};

/// The shares of one counter.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) rules: Arc<Compiled>,
    rule: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Rate(Fair, Mutex<FairState>),
    Places(FairPlaces, Mutex<PlacesState>),
}

impl Table {
    pub(super) fn new(rules: Arc<Compiled>, rule: u32, limit: &Limit) -> Table {
        let rate =
            |rate, period, burst| Kind::Rate(Fair::new(rate, period, burst), Mutex::default());
        let places =
            |lease| Kind::Places(FairPlaces::new(limit.capacity(), lease), Mutex::default());
        let kind = match limit.engine() {
            Engine::Meter(meter) => {
                let parts = meter.parts();
                rate(parts.rate, Span::from_nanos(parts.period), limit.capacity())
            }
            Engine::Concurrent(concurrent) => places(concurrent.lease()),
            Engine::Adaptive(_) => places(limit.fill_time()),
            // What a window holds comes back within it, as far as shares go.
            _ => rate(limit.capacity(), limit.fill_time(), limit.capacity()),
        };
        Table { rules, rule, kind }
    }

    pub(super) fn rule_name(&self) -> &str {
        self.rules.rules.get(self.rule as usize).map_or("", |rule| &rule.name)
    }

    pub(super) fn tenants(&self, now: Time) -> usize {
        match &self.kind {
            Kind::Rate(fair, state) => fair.tenants(&state.lock(), now),
            Kind::Places(fair, state) => fair.tenants(&state.lock(), now),
        }
    }

    pub(super) fn ask(&self, now: Time, tenant: u64, cost: u64, nodes: u64) -> Claim {
        match &self.kind {
            Kind::Rate(fair, state) => fair.among(nodes).ask(&mut state.lock(), now, tenant, cost),
            Kind::Places(fair, state) => {
                fair.among(nodes).ask(&mut state.lock(), now, tenant, cost)
            }
        }
    }

    /// What asking would be answered; nothing is kept.
    pub(super) fn would_ask(&self, now: Time, tenant: u64, cost: u64, nodes: u64) -> Claim {
        match &self.kind {
            Kind::Rate(fair, state) => {
                let mut copy = state.lock().clone();
                fair.among(nodes).ask(&mut copy, now, tenant, cost)
            }
            Kind::Places(fair, state) => {
                let mut copy = state.lock().clone();
                fair.among(nodes).ask(&mut copy, now, tenant, cost)
            }
        }
    }

    /// What was claimed is not needed: refused, or given back.
    pub(super) fn refused(&self, claim: &Claim) {
        match &self.kind {
            Kind::Rate(fair, state) => fair.refused(&mut state.lock(), claim),
            Kind::Places(fair, state) => fair.released(&mut state.lock(), claim),
        }
    }

    /// It passed: there are `limit` in all, `remaining` of them left.
    pub(super) fn passed(&self, claim: &Claim, now: Time, limit: u64, remaining: u64, nodes: u64) {
        match &self.kind {
            Kind::Rate(fair, state) => {
                fair.among(nodes).passed(&mut state.lock(), now, claim, remaining);
            }
            // The limit may adapt.
            Kind::Places(fair, state) => fair.passed(&mut state.lock(), limit),
        }
    }

    /// A holder of a place is done; what was spent of a rate stays spent.
    pub(super) fn done(&self, claim: &Claim) {
        if let Kind::Places(fair, state) = &self.kind {
            fair.released(&mut state.lock(), claim);
        }
    }
}
