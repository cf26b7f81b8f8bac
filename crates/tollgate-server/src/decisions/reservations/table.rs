//! The table of open reservations, bounded in total and for each client.
//!
//! A new reservation that does not fit is rejected; open ones are never dropped to make room for it.
//! Expired ones are: their charge stays in any case.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tollgate::{Span, Time};

use super::metrics::RejectionCounts;
use super::settled::{OutcomeHash, SettledReservations};
use super::{Reservation, ReservationId, ReservationOwner, SettlementResult};
use crate::capacity_share::{CapacityExceeded, CapacityShare, CapacityUsage};

/// The share of one client, in percent of what other clients leave.
const OWNER_SHARE: u64 = 25;
/// The time for which an expired reservation is remembered, so that an overrun is still charged.
const GRACE: Span = Span::from_secs(600);

/// The reason why a reservation is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservationsFull {
    /// The reservations of all clients use the whole capacity.
    Total,
    /// The reservations of this client use its share.
    Owner(CapacityUsage),
}

impl From<CapacityExceeded> for ReservationsFull {
    fn from(exceeded: CapacityExceeded) -> ReservationsFull {
        match exceeded {
            CapacityExceeded::Total => ReservationsFull::Total,
            CapacityExceeded::Share(share) => ReservationsFull::Owner(share),
        }
    }
}

/// The open reservations, and the results of recent settlements.
#[derive(Debug)]
pub(crate) struct ReservationTable {
    share: CapacityShare,
    state: Mutex<TableState>,
    pub(super) rejections: RejectionCounts,
}

#[derive(Debug, Default)]
struct TableState {
    by_id: HashMap<ReservationId, TableEntry>,
    by_expiry: BTreeSet<(Time, ReservationId)>,
    usage: CapacityUsage,
    by_owner: HashMap<ReservationOwner, CapacityUsage>,
    settled: SettledReservations,
}

#[derive(Debug)]
struct TableEntry {
    reservation: Arc<Reservation>,
    expires: Time,
    owner: ReservationOwner,
    bytes: u64,
}

impl ReservationTable {
    /// Creates a table for at most `count` reservations of `bytes` in total.
    pub(crate) fn new(count: usize, bytes: usize) -> ReservationTable {
        let capacity = CapacityUsage { count: count as u64, bytes: bytes as u64 };
        let share = CapacityShare { capacity, percent: OWNER_SHARE };
        ReservationTable { share, state: Mutex::default(), rejections: RejectionCounts::default() }
    }

    /// Takes a slot for a reservation of a client before anything is charged.
    pub(super) fn admit(
        &self,
        owner: ReservationOwner,
        bytes: usize,
        now: Time,
    ) -> Result<ReservationSlot<'_>, ReservationsFull> {
        let bytes = bytes as u64;
        let mut state = self.state.lock();
        state.remove_expired(|expires| expires + GRACE <= now);
        if self.check(&state, &owner, bytes).is_err() {
            state.remove_expired(|expires| expires <= now);
            self.check(&state, &owner, bytes).map_err(|exceeded| self.reject(exceeded))?;
        }
        state.usage.add(bytes);
        state.by_owner.entry(owner.clone()).or_default().add(bytes);
        Ok(ReservationSlot { table: self, owner: Some(owner), bytes })
    }

    fn check(
        &self,
        state: &TableState,
        owner: &ReservationOwner,
        bytes: u64,
    ) -> Result<(), CapacityExceeded> {
        let own = state.by_owner.get(owner).copied().unwrap_or_default();
        self.share.check(state.usage, own, bytes)
    }

    /// Counts a rejection and returns its reason.
    fn reject(&self, exceeded: CapacityExceeded) -> ReservationsFull {
        let full = exceeded.into();
        self.rejections.count(full);
        full
    }

    /// Returns the number and memory of reservations.
    pub(super) fn usage(&self) -> CapacityUsage {
        self.state.lock().usage
    }

    /// Returns all open reservations in the order of their expiry, with expiry and client.
    pub(super) fn open(&self) -> Vec<(ReservationId, Time, ReservationOwner, Arc<Reservation>)> {
        let state = self.state.lock();
        let entries =
            state.by_expiry.iter().filter_map(|(_, id)| Some((*id, state.by_id.get(id)?)));
        entries.map(|(id, it)| (id, it.expires, it.owner.clone(), it.reservation.clone())).collect()
    }

    /// Returns an open reservation.
    pub(super) fn get(&self, id: ReservationId) -> Option<Arc<Reservation>> {
        Some(self.state.lock().by_id.get(&id)?.reservation.clone())
    }

    /// Returns the expiry of an open reservation.
    pub(super) fn expiry(&self, id: ReservationId) -> Option<Time> {
        Some(self.state.lock().by_id.get(&id)?.expires)
    }

    /// Keeps a reservation open until a time, if it would expire earlier.
    pub(super) fn extend(&self, id: ReservationId, until: Time) {
        let mut state = self.state.lock();
        let Some(entry) = state.by_id.get_mut(&id) else { return };
        let (before, after) = (entry.expires, entry.expires.max(until));
        entry.expires = after;
        state.by_expiry.remove(&(before, id));
        state.by_expiry.insert((after, id));
    }

    /// Removes a settled reservation and remembers the result for a while.
    pub(super) fn close(
        &self,
        id: ReservationId,
        outcome: OutcomeHash,
        result: SettlementResult,
        now: Time,
    ) {
        let mut state = self.state.lock();
        state.remove(id);
        state.settled.insert(id, outcome, result, now);
    }

    /// Returns the result of a recent settlement that had this outcome.
    pub(super) fn settled(
        &self,
        id: ReservationId,
        outcome: OutcomeHash,
    ) -> Option<SettlementResult> {
        self.state.lock().settled.get(id, outcome)
    }
}

impl TableState {
    fn remove(&mut self, id: ReservationId) -> Option<Arc<Reservation>> {
        let entry = self.by_id.remove(&id)?;
        self.by_expiry.remove(&(entry.expires, id));
        self.free(&entry.owner, entry.bytes);
        Some(entry.reservation)
    }

    fn free(&mut self, owner: &ReservationOwner, bytes: u64) {
        self.usage.remove(bytes);
        if let Some(own) = self.by_owner.get_mut(owner) {
            own.remove(bytes);
            if own.count == 0 {
                self.by_owner.remove(owner);
            }
        }
    }

    /// Removes the reservations whose expiry is old enough, first those that expired first.
    fn remove_expired(&mut self, is_over: impl Fn(Time) -> bool) {
        while let Some((expires, id)) = self.by_expiry.first().copied()
            && is_over(expires)
        {
            if let Some(expired) = self.remove(id) {
                expired.detach();
            }
        }
    }
}

/// A slot for a reservation that is being made. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct ReservationSlot<'t> {
    table: &'t ReservationTable,
    /// The client; none once the slot is filled.
    owner: Option<ReservationOwner>,
    bytes: u64,
}

impl ReservationSlot<'_> {
    /// Takes more memory, which was not known before the charge.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), ReservationsFull> {
        let bytes = bytes as u64;
        let mut state = self.table.state.lock();
        let Some(owner) = &self.owner else { return Ok(()) };
        let own = state.by_owner.get(owner).copied().unwrap_or_default();
        let checked = self.table.share.check_growth(state.usage, own, bytes);
        checked.map_err(|exceeded| self.table.reject(exceeded))?;
        state.usage.bytes += bytes;
        state.by_owner.entry(owner.clone()).or_default().bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Fills the slot with a reservation.
    pub(super) fn fill(mut self, id: ReservationId, reservation: Reservation, expires: Time) {
        let Some(owner) = self.owner.take() else { return };
        let mut state = self.table.state.lock();
        state.by_expiry.insert((expires, id));
        let reservation = Arc::new(reservation);
        state.by_id.insert(id, TableEntry { reservation, expires, owner, bytes: self.bytes });
    }
}

impl Drop for ReservationSlot<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            self.table.state.lock().free(&owner, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::reservations::ChargeTarget;
    use crate::decisions::{InlineLimit, InlineLimitList};
    use crate::random_id::RandomId;

    fn owner(name: &str) -> ReservationOwner {
        ReservationOwner::Token(name.into())
    }

    fn id(number: u128) -> ReservationId {
        ReservationId(RandomId(number))
    }

    fn at(seconds: u64) -> Time {
        Time::EPOCH + Span::from_secs(seconds)
    }

    fn reservation() -> Reservation {
        let inline = InlineLimit::new("1/s".parse().unwrap());
        let limits = InlineLimitList::from_saved([inline].into_iter()).unwrap();
        let charged = ChargeTarget::InlineLimits(b"ann".as_slice().into(), limits);
        Reservation::new(charged, 1, at(0))
    }

    #[test]
    fn a_client_that_uses_its_share_takes_nothing_from_others() {
        let table = ReservationTable::new(100, 1 << 20);
        let open = |name: &str, number| {
            table
                .admit(owner(name), 1, at(0))
                .map(|slot| slot.fill(id(number), reservation(), at(60)))
        };
        open("ann", 0).unwrap();
        for number in 1..25 {
            open("bob", number).unwrap();
        }
        let share = CapacityUsage { count: 24, bytes: (1 << 18) - 1 };
        assert_eq!(open("bob", 99), Err(ReservationsFull::Owner(share)));
        open("ann", 100).unwrap();
        assert!(table.get(id(0)).is_some(), "no reservation is dropped for another one");
        table.close(
            id(1),
            OutcomeHash::new(&super::super::ReservationOutcome::Cancelled),
            SettlementResult::Expired,
            at(1),
        );
        assert!(table.get(id(1)).is_none());
    }

    #[test]
    fn expired_reservations_make_room() {
        let table = ReservationTable::new(2, 1 << 20);
        let open = |name: &str, number, now: u64| {
            let slot = table.admit(owner(name), 1, at(now));
            slot.map(|slot| slot.fill(id(number), reservation(), at(now + 60)))
        };
        open("ann", 1, 0).unwrap();
        open("bob", 2, 10).unwrap();
        assert_eq!(open("eve", 3, 59), Err(ReservationsFull::Total));
        assert!(table.get(id(1)).is_some());
        open("eve", 3, 60).unwrap();
        assert!(table.get(id(1)).is_none() && table.get(id(2)).is_some());
        table.extend(id(2), at(1_000));
        assert_eq!(table.expiry(id(2)), Some(at(1_000)));
        assert_eq!(open("ann", 4, 119), Err(ReservationsFull::Total));
        open("ann", 4, 120).unwrap();
        open("ann", 5, 2_000).unwrap();
        let state = table.state.lock();
        assert_eq!((state.by_id.len(), state.by_expiry.len(), state.by_owner.len()), (1, 1, 1));
        assert_eq!(state.usage, CapacityUsage { count: 1, bytes: 1 });
    }

    #[test]
    fn a_slot_that_is_not_filled_is_free_again() {
        let table = ReservationTable::new(1, 100);
        let mut slot = table.admit(owner("ann"), 10, at(0)).unwrap();
        slot.grow(80).unwrap();
        assert_eq!(slot.grow(20), Err(ReservationsFull::Total));
        assert_eq!(table.admit(owner("bob"), 1, at(0)).unwrap_err(), ReservationsFull::Total);
        drop(slot);
        assert_eq!(table.state.lock().usage, CapacityUsage::default());
        assert!(table.admit(owner("bob"), 100, at(0)).is_ok());
    }
}
