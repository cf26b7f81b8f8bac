//! Fair shares of places among those in flight.
//!
//! Places do not come back with time, so keeping a whole share free for everybody would leave most of
//! them unused. What is kept for somebody is what it had in flight lately and one more, within its
//! share: who keeps to that finds a place, and whoever is greedy has the rest.

use alloc::vec::Vec;

use super::{COMMON_SHARES, Claim, IDLE, MAX_SHARES};
use crate::{Span, Time};

/// A limit on concurrency to be shared fairly.
///
/// ```
/// use tollgate_core::fair::{FairPlaces, PlacesState};
/// use tollgate_core::{Span, Time};
///
/// let fair = FairPlaces::new(10, Span::from_secs(30));
/// let (mut state, now) = (PlacesState::default(), Time::EPOCH);
/// for _ in 0..4 {
///     assert_eq!(fair.ask(&mut state, now, 1_000, 1).reserve, 0); // alone
/// }
/// let other = fair.ask(&mut state, now, 2_000, 1);
/// assert!(fair.ask(&mut state, now, 1_000, 1).covered); // its fifth, which is its half
/// // One that the other holds, and one more for it.
/// assert_eq!(fair.ask(&mut state, now, 1_000, 1).reserve, 1);
/// fair.released(&mut state, &other);
/// assert_eq!(fair.ask(&mut state, now, 1_000, 1).reserve, 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairPlaces {
    /// Until the limit itself says how many there are.
    limit: u64,
    /// Who has not asked for so long is forgotten, with whatever it never gave back.
    idle: Span,
    nodes: u64,
}

/// Who holds how many places.
#[derive(Clone, Debug, Default)]
pub struct PlacesState {
    /// In the order of their numbers.
    seats: Vec<Seat>,
    /// As it was last said; none before.
    limit: Option<u64>,
    sweep_at: Time,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    tenant: u64,
    held: u64,
    /// The most it held lately.
    peak: u64,
    asked: Time,
}

impl FairPlaces {
    /// Shares of `limit` places, each held for `lease` at most unless renewed.
    pub fn new(limit: u64, lease: Span) -> FairPlaces {
        FairPlaces { limit: limit.max(1), idle: lease.max(IDLE), nodes: 1 }
    }

    /// The same where that many processes give places away.
    pub fn among(self, nodes: u64) -> FairPlaces {
        FairPlaces { nodes: nodes.clamp(1, 1 << 20), ..self }
    }

    /// A request for `cost` places by `tenant`. They count as held until [`released`](Self::released),
    /// which is also to be told if the limit refuses.
    pub fn ask(&self, state: &mut PlacesState, now: Time, tenant: u64, cost: u64) -> Claim {
        self.sweep(state, now);
        let index = self.seat(state, tenant, now);
        let among = (state.seats.len() as u64).saturating_mul(self.nodes);
        let share = (state.limit.unwrap_or(self.limit) / among).max(1);
        let cost = cost.min(state.limit.unwrap_or(self.limit));
        let seat = &mut state.seats[index];
        let covered = seat.held.saturating_add(cost) <= share;
        seat.held = seat.held.saturating_add(cost);
        (seat.peak, seat.asked) = (seat.peak.max(seat.held), now);
        let tenant = seat.tenant;
        let kept = |seat: &Seat| seat.peak.saturating_add(1).min(share).saturating_sub(seat.held);
        let others = state.seats.iter().filter(|seat| seat.tenant != tenant && !covered);
        let reserve = others.map(kept).fold(0, u64::saturating_add).saturating_mul(self.nodes);
        Claim { reserve, covered, tenant, taken: cost.into(), is_new: false }
    }

    /// A holder is done, or was refused.
    pub fn released(&self, state: &mut PlacesState, claim: &Claim) {
        if let Ok(index) = state.find(claim.tenant) {
            let seat = &mut state.seats[index];
            seat.held = seat.held.saturating_sub(u64::try_from(claim.taken).unwrap_or(u64::MAX));
        }
    }

    /// The limit let a request pass, and is this high now.
    pub fn passed(&self, state: &mut PlacesState, limit: u64) {
        state.limit = Some(limit.max(1));
    }

    /// How many have a share.
    pub fn tenants(&self, state: &PlacesState, now: Time) -> usize {
        state.seats.iter().filter(|seat| seat.asked + self.idle > now).count()
    }

    /// Who is away for long is forgotten, and what was held lately fades.
    fn sweep(&self, state: &mut PlacesState, now: Time) {
        if now < state.sweep_at {
            return;
        }
        state.sweep_at = now + Span::from_secs(1);
        state.seats.retain(|seat| seat.asked + self.idle > now);
        for seat in &mut state.seats {
            seat.peak = seat.held.max(seat.peak - seat.peak.div_ceil(4));
        }
    }

    fn seat(&self, state: &mut PlacesState, tenant: u64, now: Time) -> usize {
        let common = COMMON_SHARES as u64;
        let own = tenant.max(common);
        let (tenant, place) = match state.find(own) {
            Ok(index) => return index,
            Err(place) if state.seats.len() < MAX_SHARES => (own, place),
            Err(_) => match state.find(tenant % common) {
                Ok(index) => return index,
                Err(place) => (tenant % common, place),
            },
        };
        state.seats.insert(place, Seat { tenant, held: 0, peak: 0, asked: now });
        place
    }
}

impl PlacesState {
    fn find(&self, tenant: u64) -> Result<usize, usize> {
        self.seats.binary_search_by_key(&tenant, |seat| seat.tenant)
    }
}
