//! Several checks, decided as one: all their locks held, their states at hand.
//!
//! Locks are taken in one order, the same for everybody (by room, then by number), so that no
//! two requests can wait for each other.

use smallvec::SmallVec;
use tollgate_core::{Time, Verdict};

use super::cold::{Cold, Kept, Shard};
use super::line::Lock;
use super::room::Room;
use super::seat::{Desk, Seat};
use super::spot::{Shelf, level};
use super::{MANY, MemoryStore};
use crate::account::{Account, State};
use crate::limit::Limit;
use crate::store::{Check, Former};
use crate::sync::MutexGuard;

/// Seats with all their locks held. They are named by their position.
#[derive(Debug)]
pub(super) struct Held<'a, 's> {
    store: &'a MemoryStore,
    seats: &'s mut [Seat<'a>],
    lines: SmallVec<[Lock<'a>; MANY]>,
    shards: SmallVec<[MutexGuard<'a, Shard>; 1]>,
}

impl<'a, 's> Held<'a, 's> {
    /// Locks them all. Starts over if a table grew on the way and a seat moved.
    #[inline]
    pub(super) fn new(store: &'a MemoryStore, seats: &'s mut [Seat<'a>]) -> Held<'a, 's> {
        let mut held = Held { store, seats, lines: SmallVec::new(), shards: SmallVec::new() };
        while held.lock().is_none() {
            held.release();
        }
        held
    }

    /// Gives all locks back.
    #[inline]
    pub(super) fn release(&mut self) {
        self.lines.clear();
        self.shards.clear();
    }

    /// Takes the locks one by one, the first of those still missing next, and seats everybody
    /// it covers. `None` if one of them has moved elsewhere meanwhile.
    #[inline]
    fn lock(&mut self) -> Option<()> {
        let store = self.store;
        self.seats.iter_mut().for_each(|seat| seat.set_out(store));
        while let Some(next) = self.seats.iter().filter_map(Seat::missing).min() {
            let (room, number) = next;
            match room {
                Room::Narrow => {
                    let (lock, chain) = store.narrow.lock_apart(number);
                    self.lines.push(lock);
                    self.seat(next, |seat| chain.seat(seat.place(), number).map(Desk::Narrow))?;
                }
                Room::Wide => {
                    let (lock, chain) = store.wide.lock_apart(number);
                    self.lines.push(lock);
                    self.seat(next, |seat| chain.seat(seat.place(), number).map(Desk::Wide))?;
                }
                Room::Cold | Room::Nowhere => {
                    let shard = self.shards.len();
                    self.shards.push(store.cold.lock(number));
                    self.seat(next, |_| Some(Desk::Cold(shard)))?;
                }
            }
        }
        Some(())
    }

    /// Seats those who wait for that lock.
    #[inline]
    fn seat(
        &mut self,
        lock: (Room, u64),
        find: impl Fn(&Seat<'a>) -> Option<Desk<'a>>,
    ) -> Option<()> {
        for seat in &mut *self.seats {
            if seat.missing() == Some(lock) {
                seat.desk = find(seat)?;
            }
        }
        Some(())
    }

    /// The position of the last seat before this one that is about the same state.
    #[inline]
    pub(super) fn same_as(&self, seat: usize) -> Option<usize> {
        self.seats[..seat].iter().rposition(|earlier| earlier.is_same(&self.seats[seat]))
    }

    /// Whether anything is kept in a seat whose time has not come.
    pub(super) fn has(&self, seat: usize, now: Time) -> bool {
        let Seat { desk, fingerprint, .. } = &self.seats[seat];
        match desk {
            Desk::Narrow(spot) => spot.read(now).is_some(),
            Desk::Wide(spot) => spot.read(now).is_some(),
            Desk::Cold(shard) => Cold::has(&self.shards[*shard], *fingerprint, now.as_nanos()),
            Desk::Nowhere | Desk::Away(_) => false,
        }
    }

    /// The state kept in a seat; one on the heap is taken out until it is put back. One whose
    /// time has come is none, whether it was swept yet or not.
    #[inline(always)]
    fn load(&mut self, seat: usize, limit: &Limit, now: Time) -> Option<State> {
        let Seat { desk, fingerprint, .. } = &self.seats[seat];
        match desk {
            Desk::Narrow(spot) => spot.load(limit, now),
            Desk::Wide(spot) => spot.load(limit, now),
            Desk::Cold(shard) => Cold::take(&mut self.shards[*shard], *fingerprint, now.as_nanos())
                .filter(|state| state.fits(limit)),
            Desk::Nowhere | Desk::Away(_) => None,
        }
    }

    /// The account of a check: the state in its seat, or carried over from a former one.
    #[inline]
    pub(super) fn open<'c>(
        &mut self,
        check: &Check<'c>,
        seat: usize,
        formers: usize,
        now: Time,
    ) -> Account<'c> {
        let state = match self.load(seat, check.limit, now) {
            None if check.former.is_some() => {
                self.carried_over(check.limit, check.former, formers, now)
            }
            state => state,
        };
        Account { same_as: self.same_as(seat), ..Account::open(check, state, now) }
    }

    /// The state under `limit` that its former one kept in `seat`, or those before it in the
    /// seats that follow.
    fn carried_over(
        &mut self,
        limit: &Limit,
        former: Option<&Former>,
        seat: usize,
        now: Time,
    ) -> Option<State> {
        let former = former?;
        let state = self.load(seat, &former.limit, now).or_else(|| {
            self.carried_over(&former.limit, former.former.as_deref(), seat + 1, now)
        })?;
        let mut account = Account::new(&former.limit, state, 0);
        account.carry(limit, former.until.min(now), former.carry);
        Some(account.state)
    }

    /// Puts the state of an account, which `verdict` is about, back where it belongs. Returns
    /// whether it is the first of its key.
    #[inline]
    pub(super) fn close(
        &mut self,
        seat: usize,
        account: &mut Account<'_>,
        verdict: &Verdict,
        now: Time,
    ) -> bool {
        let Seat { desk, fingerprint, .. } = &self.seats[seat];
        match desk {
            Desk::Narrow(spot) => spot.save(account, verdict, now),
            Desk::Wide(spot) => spot.save(account, verdict, now),
            Desk::Cold(shard) => {
                let (full_at, level) = (account.full_at(), level(verdict));
                let state = std::mem::replace(&mut account.state, State::Nothing);
                let kept = Kept { state, full_at, level };
                self.store.cold.put(&mut self.shards[*shard], *fingerprint, kept, now)
            }
            Desk::Nowhere | Desk::Away(_) => false,
        }
    }

    /// Forgets what is kept in a seat.
    pub(super) fn clear(&mut self, seat: usize) {
        let Seat { desk, fingerprint, .. } = &self.seats[seat];
        match desk {
            Desk::Narrow(spot) => spot.forget(),
            Desk::Wide(spot) => spot.forget(),
            Desk::Cold(shard) => self.store.cold.remove(&mut self.shards[*shard], *fingerprint),
            Desk::Nowhere | Desk::Away(_) => {}
        }
    }
}
