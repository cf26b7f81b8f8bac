//! Fair shares of one limit among tenants.
//!
//! Every tenant that sent a request lately has a *share*: a small meter of `rate / n` that holds
//! `burst / n` (with `n` tenants), or one request if that is more. A request that its own share covers
//! may use whatever the limit has left. Any other request *borrows*: it must leave what the shares of
//! the other tenants hold. So the limit always has what is promised, a greedy tenant gets exactly what
//! the others leave, and a tenant that is alone gets all of it.
//!
//! Why that holds. Let `s` be what the limit has left and `p` the sum of what all shares hold. At
//! first `p <= s`. Time gives `s` at least as much as it gives `p`, since the rates of the shares
//! sum up to the limit's, and where `s` is full, `p` is at most that. A covered request takes the
//! same amount from both. A borrowing request leaves `s` with what the others hold, and its own
//! share with nothing. A new tenant starts with what `s` has beyond `p`, and the others are
//! cut to the smaller share. The sum is off only where shares are stretched to hold one
//! request: when more such tenants are active than fit the limit.
//!
//! Shares are not stored: each process promises only what it can observe. Where several processes
//! share a limit, each promises its part of it.

mod permits;
mod promised_total;

use alloc::vec::Vec;

use crate::{Span, Time};

pub use permits::{FairPermits, FairPermitsState};
use promised_total::{PromisedTotal, ShareTally};

/// The most tenants with a share of their own.
pub const MAX_SHARES: usize = 1024;
/// The number of shares that all further tenants have in common; the tenant number chooses one.
pub const COMMON_SHARES: usize = 64;
/// The shortest idle time after which a tenant loses its share; it is at least the limit's fill time.
///
/// A long time is harmless: a full share costs the other tenants nothing but a part of the burst.
const IDLE: Span = Span::from_secs(10);

/// Fair shares of a limit of `rate` each `period` that holds `burst`.
///
/// ```
/// use tollgate_core::fair::{FairShares, FairSharesState};
/// use tollgate_core::{Span, Time};
///
/// let fair = FairShares::new(100, Span::from_secs(1), 100);
/// let (mut state, now) = (FairSharesState::default(), Time::EPOCH);
/// let greedy = fair.claim(&mut state, now, 1_000, 1);
/// assert_eq!(greedy.reserve, 0); // alone, it may use all of the limit
/// let other = fair.claim(&mut state, now, 2_000, 1);
/// fair.confirm(&mut state, now, &other, 98);
/// // From now on 50 are reserved for the other tenant.
/// assert_eq!(fair.claim(&mut state, now, 1_000, 1).reserve, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShares {
    rate: u64,
    /// Nanoseconds, and parts of a token: a share gains `rate / n` of them a nanosecond.
    period: u64,
    burst: u64,
    /// A tenant without requests for this long loses its share.
    idle: Span,
    /// The number of processes that promise parts of the limit.
    nodes: u64,
}

/// The shares of all tenants of one limit.
#[derive(Clone, Debug, Default)]
pub struct FairSharesState {
    /// Sorted by tenant.
    shares: Vec<Share>,
    /// The amount that an unused share would hold by now, in parts of a token.
    gained: u128,
    at: Time,
    /// The time of the next search for idle tenants.
    next_sweep: Time,
    promised: PromisedTotal,
}

/// The share of one tenant.
#[derive(Clone, Copy, Debug)]
struct Share {
    tenant: u64,
    /// The share holds `gained` less this.
    since: u128,
    /// The cost of the latest request.
    cost: u64,
    last_request: Time,
    tally: ShareTally,
}

/// The amount that a request must leave, and the amount taken from its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The amount that the request must leave of the limit.
    pub reserve: u64,
    /// Whether the tenant's own share covers the request.
    pub covered: bool,
    tenant: u64,
    taken: u128,
    is_new: bool,
}

impl FairShares {
    /// Creates shares of a limit of `rate` each `period` that holds `burst`; each at least 1.
    pub fn new(rate: u64, period: Span, burst: u64) -> FairShares {
        let (rate, period, burst) = (rate.max(1), period.as_nanos().max(1), burst.max(1));
        let fill = u128::from(burst) * u128::from(period) / u128::from(rate);
        let fill = Span::from_nanos(u64::try_from(fill).unwrap_or(u64::MAX));
        FairShares { rate, period, burst, idle: fill.max(IDLE), nodes: 1 }
    }

    /// Sets the number of processes that promise parts of the limit; 1 by default.
    ///
    /// Each promises an equal part, and leaves the others as much as it has promised itself.
    pub fn across_nodes(self, nodes: u64) -> FairShares {
        FairShares { nodes: nodes.clamp(1, 1 << 20), ..self }
    }

    /// Claims `cost` for a request of `tenant`, a number as random as a hash.
    ///
    /// The cost is taken from the share at once, so that concurrent requests take it into account;
    /// [`cancel`](FairShares::cancel) returns it.
    pub fn claim(&self, state: &mut FairSharesState, now: Time, tenant: u64, cost: u64) -> Claim {
        self.advance(state, now);
        self.drop_idle(state, now);
        let (index, is_new) = self.find_or_add(state, tenant);
        let cost = cost.min(self.burst);
        let max = self.max_share(state.shares.len(), cost);
        let balance = (state.gained - state.shares[index].since).min(max);
        let price = self.parts(cost);
        let covered = balance >= price;
        let (taken, others) = match covered {
            true => (price, 0),
            false => (balance, self.promised_to_others(state, index)),
        };
        let since = state.gained - (balance - taken);
        self.update_share(state, index, |share| {
            (share.since, share.cost, share.last_request) = (since, cost, now);
        });
        let share = &state.shares[index];
        let reserve = others.saturating_mul(self.nodes.into()).div_ceil(self.period.into());
        let reserve = u64::try_from(reserve).unwrap_or(u64::MAX);
        Claim { reserve, covered, tenant: share.tenant, taken, is_new }
    }

    /// Returns the claimed amount to the share, after the limit refused the request.
    pub fn cancel(&self, state: &mut FairSharesState, claim: &Claim) {
        if let Ok(index) = state.find(claim.tenant) {
            self.update_share(state, index, |share| {
                share.since = share.since.saturating_sub(claim.taken);
            });
        }
    }

    /// Confirms that the request passed and left `remaining` of the limit.
    ///
    /// A new tenant starts with the amount that is not promised to others.
    pub fn confirm(&self, state: &mut FairSharesState, now: Time, claim: &Claim, remaining: u64) {
        if !claim.is_new {
            return;
        }
        self.advance(state, now);
        let Ok(index) = state.find(claim.tenant) else { return };
        let share = &state.shares[index];
        let max = self.max_share(state.shares.len(), share.cost);
        let balance = (state.gained - share.since).min(max);
        let left = self.parts(remaining) / u128::from(self.nodes);
        let spare = left.saturating_sub(self.promised_to_others(state, index));
        let since = state.gained - spare.max(balance).min(max);
        self.update_share(state, index, |share| share.since = since);
    }

    /// Returns how many tenants have a share.
    pub fn tenants(&self, state: &FairSharesState, now: Time) -> usize {
        state.shares.iter().filter(|share| share.last_request + self.idle > now).count()
    }

    /// Converts tokens to parts of a token.
    fn parts(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.period)
    }

    /// Returns the most that one of `shares` shares holds, at least one request of `cost`.
    fn max_share(&self, shares: usize, cost: u64) -> u128 {
        let part = self.parts(self.burst) / (shares.max(1) as u128 * u128::from(self.nodes));
        part.max(self.parts(cost))
    }

    /// Adds what the shares gained until `now`.
    fn advance(&self, state: &mut FairSharesState, now: Time) {
        // At least a burst, so that no share holds more than was ever gained.
        state.gained = state.gained.max(self.parts(self.burst));
        if now <= state.at {
            return;
        }
        let passed = now.since(state.at).as_nanos();
        let among = state.shares.len().max(1) as u128 * u128::from(self.nodes);
        // After a full burst all shares are full, so a longer time adds nothing.
        let max = self.parts(self.burst);
        state.gained += (u128::from(passed) * u128::from(self.rate) / among).min(max);
        state.at = now;
    }

    /// Removes the shares of tenants that have been idle for too long.
    fn drop_idle(&self, state: &mut FairSharesState, now: Time) {
        if now < state.next_sweep {
            return;
        }
        state.next_sweep = now + Span::from_nanos(self.idle.as_nanos() / 8);
        if state.shares.iter().any(|share| share.last_request + self.idle <= now) {
            // The remaining shares may hold more from now on, but do not hold more at once.
            self.shrink_shares(state, state.shares.len());
            state.shares.retain(|share| share.last_request + self.idle > now);
            state.promised.invalidate();
        }
    }

    /// Returns the index of the share of a tenant, and whether it is new.
    fn find_or_add(&self, state: &mut FairSharesState, tenant: u64) -> (usize, bool) {
        let common = COMMON_SHARES as u64;
        let own = tenant.max(common);
        let (tenant, index) = match state.find(own) {
            Ok(index) => return (index, false),
            Err(index) if state.shares.len() < MAX_SHARES => (own, index),
            Err(_) => match state.find(tenant % common) {
                Ok(index) => return (index, false),
                Err(index) => (tenant % common, index),
            },
        };
        self.shrink_shares(state, state.shares.len() + 1);
        let (since, last_request) = (state.gained, state.at);
        let share = Share { tenant, since, cost: 0, last_request, tally: ShareTally::UNCOUNTED };
        state.shares.insert(index, share);
        state.promised.invalidate();
        (index, true)
    }

    /// Cuts every share to the most that one of `shares` shares may hold.
    fn shrink_shares(&self, state: &mut FairSharesState, shares: usize) {
        let gained = state.gained;
        for share in &mut state.shares {
            share.since = share.since.max(gained - gained.min(self.max_share(shares, share.cost)));
        }
    }
}

impl FairSharesState {
    fn find(&self, tenant: u64) -> Result<usize, usize> {
        self.shares.binary_search_by_key(&tenant, |share| share.tenant)
    }
}

#[cfg(test)]
mod tests;
