//! Fair tenants of the permits of a concurrency limit.
//!
//! Permits do not come back with time, so reserving a whole share for every tenant would leave most of
//! them unused. A tenant has reserved what it had in flight lately plus one, within its share. A tenant
//! that keeps to that finds a permit, and a greedy one gets the rest.

use alloc::vec::Vec;

use super::{COMMON_SHARES, Claim, IDLE, MAX_SHARES};
use crate::{Span, Time};

/// Fair shares of the permits of a concurrency limit.
///
/// ```
/// use tollgate_core::fair::{FairPermits, FairPermitsState};
/// use tollgate_core::{Span, Time};
///
/// let fair = FairPermits::new(10, Span::from_secs(30));
/// let (mut state, now) = (FairPermitsState::default(), Time::EPOCH);
/// for _ in 0..4 {
///     assert_eq!(fair.claim(&mut state, now, 1_000, 1).reserve, 0); // alone
/// }
/// let other = fair.claim(&mut state, now, 2_000, 1);
/// assert!(fair.claim(&mut state, now, 1_000, 1).covered); // its fifth, which is its half
/// // The other holds one permit, and has one more reserved.
/// assert_eq!(fair.claim(&mut state, now, 1_000, 1).reserve, 1);
/// fair.release(&mut state, &other);
/// assert_eq!(fair.claim(&mut state, now, 1_000, 1).reserve, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairPermits {
    /// The number of permits until [`set_limit`](FairPermits::set_limit) reports another.
    limit: u64,
    /// A tenant without requests for this long is forgotten, together with unreleased permits.
    idle: Span,
    nodes: u64,
}

/// The permits of all tenants of one limit.
#[derive(Clone, Debug, Default)]
pub struct FairPermitsState {
    /// Sorted by tenant.
    tenants: Vec<TenantPermits>,
    /// The limit last reported; `None` before the first report.
    limit: Option<u64>,
    next_sweep: Time,
    /// The size of a share and the total reserved with it; `None` if it must be counted again.
    reserved: Option<(u64, u64)>,
}

/// The permits of one tenant.
#[derive(Clone, Copy, Debug)]
struct TenantPermits {
    tenant: u64,
    in_flight: u64,
    /// The most permits that the tenant held lately.
    peak: u64,
    last_request: Time,
}

impl TenantPermits {
    /// Returns how many permits of a share of this size are reserved for the tenant.
    fn reserved(&self, share: u64) -> u64 {
        self.peak.saturating_add(1).min(share).saturating_sub(self.in_flight)
    }
}

impl FairPermits {
    /// Creates shares of `limit` permits, each held for `lease` at most unless renewed.
    pub fn new(limit: u64, lease: Span) -> FairPermits {
        FairPermits { limit: limit.max(1), idle: lease.max(IDLE), nodes: 1 }
    }

    /// Sets the number of processes that give out permits of the limit; 1 by default.
    pub fn across_nodes(self, nodes: u64) -> FairPermits {
        FairPermits { nodes: nodes.clamp(1, 1 << 20), ..self }
    }

    /// Claims `cost` permits for a request of `tenant`.
    ///
    /// They count as in flight until [`release`](Self::release), which must also be called when the
    /// limit refuses the request.
    pub fn claim(&self, state: &mut FairPermitsState, now: Time, tenant: u64, cost: u64) -> Claim {
        self.drop_idle(state, now);
        let index = self.find_or_add(state, tenant, now);
        let among = (state.tenants.len() as u64).saturating_mul(self.nodes);
        let share = (state.limit.unwrap_or(self.limit) / among).max(1);
        let cost = cost.min(state.limit.unwrap_or(self.limit));
        let entry = state.tenants[index];
        let in_flight = entry.in_flight.saturating_add(cost);
        let covered = in_flight <= share;
        let others = match covered {
            true => 0,
            false => state.reserved(share) - entry.reserved(share),
        };
        state.update_share(index, |entry| {
            (entry.in_flight, entry.peak, entry.last_request) =
                (in_flight, entry.peak.max(in_flight), now);
        });
        let reserve = others.saturating_mul(self.nodes);
        Claim { reserve, covered, tenant: entry.tenant, taken: cost.into(), is_new: false }
    }

    /// Returns the permits of a request that finished or was refused.
    pub fn release(&self, state: &mut FairPermitsState, claim: &Claim) {
        if let Ok(index) = state.find(claim.tenant) {
            let taken = u64::try_from(claim.taken).unwrap_or(u64::MAX);
            state.update_share(index, |entry| {
                entry.in_flight = entry.in_flight.saturating_sub(taken)
            });
        }
    }

    /// Records the current height of the limit, after it let a request pass.
    pub fn set_limit(&self, state: &mut FairPermitsState, limit: u64) {
        state.limit = Some(limit.max(1));
    }

    /// Returns how many tenants have a share.
    pub fn tenants(&self, state: &FairPermitsState, now: Time) -> usize {
        state.tenants.iter().filter(|entry| entry.last_request + self.idle > now).count()
    }

    /// Removes tenants that have been idle for too long, and lets the peaks of the others decay.
    fn drop_idle(&self, state: &mut FairPermitsState, now: Time) {
        if now < state.next_sweep {
            return;
        }
        state.next_sweep = now + Span::from_secs(1);
        state.tenants.retain(|entry| entry.last_request + self.idle > now);
        for entry in &mut state.tenants {
            entry.peak = entry.in_flight.max(entry.peak - entry.peak.div_ceil(4));
        }
        state.reserved = None;
    }

    /// Returns the index of the entry of a tenant.
    fn find_or_add(&self, state: &mut FairPermitsState, tenant: u64, now: Time) -> usize {
        let common = COMMON_SHARES as u64;
        let own = tenant.max(common);
        let (tenant, index) = match state.find(own) {
            Ok(index) => return index,
            Err(index) if state.tenants.len() < MAX_SHARES => (own, index),
            Err(_) => match state.find(tenant % common) {
                Ok(index) => return index,
                Err(index) => (tenant % common, index),
            },
        };
        state
            .tenants
            .insert(index, TenantPermits { tenant, in_flight: 0, peak: 0, last_request: now });
        state.reserved = None;
        index
    }
}

impl FairPermitsState {
    /// Returns the permits that are reserved for all tenants, with shares of this size.
    fn reserved(&mut self, share: u64) -> u64 {
        match self.reserved {
            Some((of, reserved)) if of == share => reserved,
            _ => {
                let reserved = self.tenants.iter().map(|entry| entry.reserved(share)).sum();
                self.reserved = Some((share, reserved));
                reserved
            }
        }
    }

    /// Changes an entry and keeps the total up to date.
    fn update_share(&mut self, index: usize, update: impl FnOnce(&mut TenantPermits)) {
        let entry = &mut self.tenants[index];
        let Some((share, reserved)) = &mut self.reserved else { return update(entry) };
        *reserved -= entry.reserved(*share);
        update(entry);
        *reserved += entry.reserved(*share);
    }

    fn find(&self, tenant: u64) -> Result<usize, usize> {
        self.tenants.binary_search_by_key(&tenant, |entry| entry.tenant)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A request must leave what is reserved for each of the other tenants, in any history.
        #[test]
        fn the_total_reserved_is_the_sum_over_all_tenants(
            steps in prop::collection::vec((0_u64..24, 1_u64..4, 0_u64..40, 0_u8..8), 1..400),
        ) {
            let mut state = FairPermitsState::default();
            let mut now = Time::EPOCH;
            let mut claims = Vec::new();
            for (tenant, cost, wait, what) in steps {
                // Now and then the wait is long enough for some tenants to be forgotten.
                let wait = if wait == 39 { 6_000 } else { wait * 10 };
                now = now + Span::from_millis(wait);
                let fair = FairPermits::new(30, Span::from_secs(1)).across_nodes(1 + u64::from(what == 7));
                match what {
                    0..=1 => {
                        if let Some(claim) = claims.pop() {
                            fair.release(&mut state, &claim);
                        }
                    }
                    2 => fair.set_limit(&mut state, 20 + cost * 10),
                    _ => {
                        let claim = fair.claim(&mut state, now, 1_000 + tenant, cost);
                        claims.insert(claims.len() / 2, claim);
                        let among = state.tenants.len() as u64 * fair.nodes;
                        let share = (state.limit.unwrap_or(30) / among).max(1);
                        let others = state.tenants.iter().filter(|entry| entry.tenant != claim.tenant);
                        let plain: u64 = others.map(|entry| entry.reserved(share)).sum();
                        let expected = if claim.covered { 0 } else { plain * fair.nodes };
                        prop_assert_eq!(claim.reserve, expected);
                    }
                }
            }
        }
    }
}
