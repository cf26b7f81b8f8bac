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
    /// What is kept for all of them together, of shares that are so large; none if they were not
    /// counted since something changed for all.
    kept: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    tenant: u64,
    held: u64,
    /// The most it held lately.
    peak: u64,
    asked: Time,
}

impl Seat {
    /// How many of a share are kept free for it.
    fn kept(&self, share: u64) -> u64 {
        self.peak.saturating_add(1).min(share).saturating_sub(self.held)
    }
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
        let seat = state.seats[index];
        let held = seat.held.saturating_add(cost);
        let covered = held <= share;
        let others = match covered {
            true => 0,
            false => state.kept(share) - seat.kept(share),
        };
        state.change(index, |seat| {
            (seat.held, seat.peak, seat.asked) = (held, seat.peak.max(held), now);
        });
        let reserve = others.saturating_mul(self.nodes);
        Claim { reserve, covered, tenant: seat.tenant, taken: cost.into(), is_new: false }
    }

    /// A holder is done, or was refused.
    pub fn released(&self, state: &mut PlacesState, claim: &Claim) {
        if let Ok(index) = state.find(claim.tenant) {
            let taken = u64::try_from(claim.taken).unwrap_or(u64::MAX);
            state.change(index, |seat| seat.held = seat.held.saturating_sub(taken));
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
        state.kept = None;
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
        state.kept = None;
        place
    }
}

impl PlacesState {
    /// What is kept for everybody, of shares that are so large.
    fn kept(&mut self, share: u64) -> u64 {
        match self.kept {
            Some((of, kept)) if of == share => kept,
            _ => {
                let kept = self.seats.iter().map(|seat| seat.kept(share)).sum();
                self.kept = Some((share, kept));
                kept
            }
        }
    }

    /// Changes a seat, and what is known of all of them.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Seat)) {
        let seat = &mut self.seats[index];
        let Some((share, kept)) = &mut self.kept else { return change(seat) };
        *kept -= seat.kept(*share);
        change(seat);
        *kept += seat.kept(*share);
    }

    fn find(&self, tenant: u64) -> Result<usize, usize> {
        self.seats.binary_search_by_key(&tenant, |seat| seat.tenant)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What must be left is what is kept for each of the others, whoever came, left or was
        /// forgotten, and however the limit moved.
        #[test]
        fn what_is_kept_for_all_is_the_sum_of_what_is_kept_for_each(
            steps in prop::collection::vec((0_u64..24, 1_u64..4, 0_u64..40, 0_u8..8), 1..400),
        ) {
            let mut state = PlacesState::default();
            let mut now = Time::EPOCH;
            let mut claims = Vec::new();
            for (tenant, cost, wait, what) in steps {
                // Now and then long enough for some to be forgotten.
                let wait = if wait == 39 { 6_000 } else { wait * 10 };
                now = now + Span::from_millis(wait);
                let fair = FairPlaces::new(30, Span::from_secs(1)).among(1 + u64::from(what == 7));
                match what {
                    0..=1 => {
                        if let Some(claim) = claims.pop() {
                            fair.released(&mut state, &claim);
                        }
                    }
                    2 => fair.passed(&mut state, 20 + cost * 10),
                    _ => {
                        let claim = fair.ask(&mut state, now, 1_000 + tenant, cost);
                        claims.insert(claims.len() / 2, claim);
                        let among = state.seats.len() as u64 * fair.nodes;
                        let share = (state.limit.unwrap_or(30) / among).max(1);
                        let others = state.seats.iter().filter(|seat| seat.tenant != claim.tenant);
                        let plain: u64 = others.map(|seat| seat.kept(share)).sum();
                        let expected = if claim.covered { 0 } else { plain * fair.nodes };
                        prop_assert_eq!(claim.reserve, expected);
                    }
                }
            }
        }
    }
}
