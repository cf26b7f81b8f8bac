//! Fair shares of one limit: who is being promised what.
//!
//! Everybody who asked lately has a *share*, a small meter of `rate / n` that holds `burst / n` (`n`
//! of them), or one request if that is more. A request that its own share covers may have whatever the
//! limit has left. Any other *borrows*: it must leave what the shares of the others hold. So the limit
//! always has what is promised, whoever is greedy gets exactly what the rest leave, and who is alone
//! has all of it.
//!
//! Why that holds. Let `s` be what the limit has left and `p` the sum of what all shares hold.
//! At first `p <= s`. Time gives `s` at least as much as it gives `p`, since the rates of the shares sum
//! up to the limit's, and where `s` is full, `p` is at most that. A covered request takes as much from
//! both. A borrower leaves `s` with what the others hold, and its own share with nothing. Somebody new
//! begins with what `s` has beyond `p`, and the others are cut to the smaller share. It is off only
//! where shares are stretched to hold one request: more of those at work than fit the limit.
//!
//! Shares are not kept in a store: what is promised is a matter of the process that promises it. Where
//! several share a limit, each promises its part of it.

mod places;
mod sum;

use alloc::vec::Vec;

use crate::{Span, Time};

pub use places::{FairPlaces, PlacesState};
use sum::{Counted, Sum};

/// So many have a share of their own.
pub const MAX_SHARES: usize = 1024;
/// So many shares there are for all others, each one's chosen by its number.
pub const COMMON_SHARES: usize = 64;
/// Who has not asked for so long, and for as long as the limit takes to fill, has no share any more.
/// It may be long: a share that is full costs the others nothing but a part of the burst.
const IDLE: Span = Span::from_secs(10);

/// A limit to be shared fairly: `rate` each `period`, `burst` at once.
///
/// ```
/// use tollgate_core::fair::{Fair, FairState};
/// use tollgate_core::{Span, Time};
///
/// let fair = Fair::new(100, Span::from_secs(1), 100);
/// let (mut state, now) = (FairState::default(), Time::EPOCH);
/// let greedy = fair.ask(&mut state, now, 1_000, 1);
/// assert_eq!(greedy.reserve, 0); // alone, it has all of it
/// let other = fair.ask(&mut state, now, 2_000, 1);
/// fair.passed(&mut state, now, &other, 98);
/// // From now on 50 are kept for the other.
/// assert_eq!(fair.ask(&mut state, now, 1_000, 1).reserve, 50);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fair {
    rate: u64,
    /// Nanoseconds, and parts of a token: a share gains `rate / n` of them a nanosecond.
    period: u64,
    burst: u64,
    /// Who has not asked for so long has no share.
    idle: Span,
    /// How many processes promise parts of the limit.
    nodes: u64,
}

/// Who has a share, and what it holds.
#[derive(Clone, Debug, Default)]
pub struct FairState {
    /// In the order of their numbers.
    shares: Vec<Share>,
    /// What a share that was never used would hold by now, in parts of a token.
    gained: u128,
    at: Time,
    /// When to look for those who have left.
    sweep_at: Time,
    sum: Sum,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    tenant: u64,
    /// It holds what was gained since: `gained` less this.
    since: u128,
    /// Of the latest request.
    cost: u64,
    asked: Time,
    counted: Counted,
}

/// What a request is to leave, and what was taken from its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What must be left of the limit for the request to pass.
    pub reserve: u64,
    /// Whether its own share covers it.
    pub covered: bool,
    tenant: u64,
    taken: u128,
    is_new: bool,
}

impl Fair {
    /// Shares of a limit of `rate` each `period` that holds `burst`; each at least 1.
    pub fn new(rate: u64, period: Span, burst: u64) -> Fair {
        let (rate, period, burst) = (rate.max(1), period.as_nanos().max(1), burst.max(1));
        let fill = u128::from(burst) * u128::from(period) / u128::from(rate);
        let fill = Span::from_nanos(u64::try_from(fill).unwrap_or(u64::MAX));
        Fair { rate, period, burst, idle: fill.max(IDLE), nodes: 1 }
    }

    /// The same where that many processes promise parts of the limit: each a part as large, and each
    /// leaves the others as much as it has promised itself.
    pub fn among(self, nodes: u64) -> Fair {
        Fair { nodes: nodes.clamp(1, 1 << 20), ..self }
    }

    /// A request of `cost` by `tenant`, a number as random as a hash. Taken from its share at once, so
    /// that others who ask meanwhile know; [`refused`](Fair::refused) gives it back.
    pub fn ask(&self, state: &mut FairState, now: Time, tenant: u64, cost: u64) -> Claim {
        self.advance(state, now);
        self.sweep(state, now);
        let (index, is_new) = self.seat(state, tenant);
        let cost = cost.min(self.burst);
        let most = self.most_of(state.shares.len(), cost);
        let held = (state.gained - state.shares[index].since).min(most);
        let price = self.parts(cost);
        let covered = held >= price;
        let (taken, others) = match covered {
            true => (price, 0),
            false => (held, self.promised_beside(state, index)),
        };
        let since = state.gained - (held - taken);
        self.change(state, index, |share| {
            (share.since, share.cost, share.asked) = (since, cost, now);
        });
        let share = &state.shares[index];
        let reserve = others.saturating_mul(self.nodes.into()).div_ceil(self.period.into());
        let reserve = u64::try_from(reserve).unwrap_or(u64::MAX);
        Claim { reserve, covered, tenant: share.tenant, taken, is_new }
    }

    /// The limit refused it: its share has back what was taken.
    pub fn refused(&self, state: &mut FairState, claim: &Claim) {
        if let Ok(index) = state.find(claim.tenant) {
            self.change(state, index, |share| {
                share.since = share.since.saturating_sub(claim.taken);
            });
        }
    }

    /// The limit let it pass and has `remaining` left: who is new begins with what nobody was promised.
    pub fn passed(&self, state: &mut FairState, now: Time, claim: &Claim, remaining: u64) {
        if !claim.is_new {
            return;
        }
        self.advance(state, now);
        let Ok(index) = state.find(claim.tenant) else { return };
        let share = &state.shares[index];
        let most = self.most_of(state.shares.len(), share.cost);
        let held = (state.gained - share.since).min(most);
        let left = self.parts(remaining) / u128::from(self.nodes);
        let spare = left.saturating_sub(self.promised_beside(state, index));
        let since = state.gained - spare.max(held).min(most);
        self.change(state, index, |share| share.since = since);
    }

    /// How many have a share.
    pub fn tenants(&self, state: &FairState, now: Time) -> usize {
        state.shares.iter().filter(|share| share.asked + self.idle > now).count()
    }

    fn parts(&self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.period)
    }

    /// What a share of so many holds at most, one request of that cost at least.
    fn most_of(&self, shares: usize, cost: u64) -> u128 {
        let part = self.parts(self.burst) / (shares.max(1) as u128 * u128::from(self.nodes));
        part.max(self.parts(cost))
    }

    fn advance(&self, state: &mut FairState, now: Time) {
        // So much that no share holds more than was ever gained.
        state.gained = state.gained.max(self.parts(self.burst));
        if now <= state.at {
            return;
        }
        let passed = now.since(state.at).as_nanos();
        let among = state.shares.len().max(1) as u128 * u128::from(self.nodes);
        // Long ago is as good as when the last share was full.
        let most = self.parts(self.burst);
        state.gained += (u128::from(passed) * u128::from(self.rate) / among).min(most);
        state.at = now;
    }

    /// Those who have not asked for long have no share any more.
    fn sweep(&self, state: &mut FairState, now: Time) {
        if now < state.sweep_at {
            return;
        }
        state.sweep_at = now + Span::from_nanos(self.idle.as_nanos() / 8);
        if state.shares.iter().any(|share| share.asked + self.idle <= now) {
            // Nobody holds more than before only because there is room for more now.
            self.cut(state, state.shares.len());
            state.shares.retain(|share| share.asked + self.idle > now);
            state.sum.forget();
        }
    }

    /// The share of a tenant, and whether it is a new one.
    fn seat(&self, state: &mut FairState, tenant: u64) -> (usize, bool) {
        let common = COMMON_SHARES as u64;
        let own = tenant.max(common);
        let (tenant, place) = match state.find(own) {
            Ok(index) => return (index, false),
            Err(place) if state.shares.len() < MAX_SHARES => (own, place),
            Err(_) => match state.find(tenant % common) {
                Ok(index) => return (index, false),
                Err(place) => (tenant % common, place),
            },
        };
        self.cut(state, state.shares.len() + 1);
        let (since, asked) = (state.gained, state.at);
        let share = Share { tenant, since, cost: 0, asked, counted: Counted::NOT };
        state.shares.insert(place, share);
        state.sum.forget();
        (place, true)
    }

    /// No share holds more than one of so many may.
    fn cut(&self, state: &mut FairState, shares: usize) {
        let gained = state.gained;
        for share in &mut state.shares {
            share.since = share.since.max(gained - gained.min(self.most_of(shares, share.cost)));
        }
    }
}

impl FairState {
    fn find(&self, tenant: u64) -> Result<usize, usize> {
        self.shares.binary_search_by_key(&tenant, |share| share.tenant)
    }
}

#[cfg(test)]
mod tests;
