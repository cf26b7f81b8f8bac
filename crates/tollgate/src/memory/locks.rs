//! Several checks, decided as one: finding their states and holding all their locks.
//!
//! Locks are taken in one order, the same for everybody (by room, then by number), so that no
//! two requests can wait for each other.

use smallvec::SmallVec;
use tollgate_core::Time;

use super::chain::Locked;
use super::cold::{Cold, Kept, Shard};
use super::place::Place;
use super::room::{self, Room};
use super::{MemoryStore, Table};
use crate::Key;
use crate::account::{Account, State};
use crate::key::Fingerprint;
use crate::limit::{Engine, Limit};
use crate::store::{Action, Bucket, Check, Former};
use crate::sync::MutexGuard;

/// Where the state of one check lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) room: Room,
    pub(super) fingerprint: Fingerprint,
}

impl Seat {
    pub(super) fn of(store: &MemoryStore, bucket: Bucket, key: Key<'_>, limit: &Limit) -> Seat {
        let fingerprint = store.fingerprinter.of(bucket, key);
        Seat { room: Room::of(limit), fingerprint }
    }

    fn place(&self) -> Place {
        Place::of(self.fingerprint)
    }

    /// The number of the lock that covers it, at this moment.
    fn lock(&self, store: &MemoryStore) -> u64 {
        match self.room {
            Room::Narrow => store.narrow.line_of(self.place()),
            Room::Wide => store.wide.line_of(self.place()),
            Room::Cold => Cold::shard_of(self.fingerprint),
            Room::Nowhere => 0,
        }
    }
}

/// The seat of a check, followed by those it had under limits that were since replaced.
pub(super) type Seats = SmallVec<[Seat; 1]>;

pub(super) fn seats(store: &MemoryStore, checks: &[Check<'_>]) -> SmallVec<[Seats; 2]> {
    checks
        .iter()
        .map(|check| {
            let formers = std::iter::successors(check.former, |former| former.former.as_deref());
            std::iter::once(Seat::of(store, check.bucket, check.key, check.limit))
                .chain(formers.map(|f| Seat::of(store, f.bucket, check.key, &f.limit)))
                .collect()
        })
        .collect()
}

/// The seats to be locked together.
#[derive(Debug, Default)]
pub(super) struct Locks(SmallVec<[Seat; 4]>);

/// All of them, locked.
#[derive(Debug)]
pub(super) struct Held<'a> {
    store: &'a MemoryStore,
    narrow: SmallVec<[(u64, Locked<'a, 8, 1>); 2]>,
    wide: SmallVec<[(u64, Locked<'a, 16, 3>); 2]>,
    cold: SmallVec<[(u64, MutexGuard<'a, Shard>); 1]>,
}

impl Locks {
    pub(super) fn want(&mut self, seat: Seat) {
        self.0.push(seat);
    }

    /// Locks them all. Starts over if the table grew on the way and a seat moved.
    pub(super) fn hold<'a>(&self, store: &'a MemoryStore) -> Held<'a> {
        loop {
            if let Some(held) = self.try_hold(store) {
                return held;
            }
        }
    }

    fn try_hold<'a>(&self, store: &'a MemoryStore) -> Option<Held<'a>> {
        let mut order: SmallVec<[(Room, u64, Seat); 4]> =
            self.0.iter().map(|seat| (seat.room, seat.lock(store), *seat)).collect();
        order.sort_by_key(|(room, number, _)| (*room, *number));
        let mut held =
            Held { store, narrow: SmallVec::new(), wide: SmallVec::new(), cold: SmallVec::new() };
        for (room, number, seat) in order {
            match room {
                Room::Narrow => lock_line(&store.narrow, &mut held.narrow, number, seat.place())?,
                Room::Wide => lock_line(&store.wide, &mut held.wide, number, seat.place())?,
                Room::Cold if held.cold.last().is_some_and(|(last, _)| *last == number) => {}
                Room::Cold => held.cold.push((number, store.cold.lock(number))),
                Room::Nowhere => {}
            }
        }
        Some(held)
    }
}

/// Locks a line unless it is the one locked last; `None` if `place` has moved away from it.
fn lock_line<'a, const W: usize, const N: usize>(
    table: &'a Table<W, N>,
    held: &mut SmallVec<[(u64, Locked<'a, W, N>); 2]>,
    number: u64,
    place: Place,
) -> Option<()> {
    if held.last().is_some_and(|(last, _)| *last == number) {
        return (table.line_of(place) == number).then_some(());
    }
    held.push((number, table.lock_if_home(number, place)?));
    Some(())
}

/// The lock that covers a number: all that are wanted are held.
fn covering<T>(locks: &mut [(u64, T)], number: u64) -> &mut T {
    let (_, lock) = locks.iter_mut().find(|(held, _)| *held == number).expect("held");
    lock
}

impl Held<'_> {
    /// Whether anything is kept in a seat whose time has not come.
    pub(super) fn has(&mut self, seat: Seat, now: Time) -> bool {
        let number = seat.lock(self.store);
        let now = now.as_nanos();
        match seat.room {
            Room::Narrow => {
                let slot = covering(&mut self.narrow, number).find(seat.place());
                slot.is_some_and(|slot| slot.entry::<1>().full_at() > now)
            }
            Room::Wide => {
                let slot = covering(&mut self.wide, number).find(seat.place());
                slot.is_some_and(|slot| slot.entry::<3>().full_at() > now)
            }
            Room::Cold => Cold::has(covering(&mut self.cold, number), seat.fingerprint, now),
            Room::Nowhere => false,
        }
    }

    /// The state kept in a seat; one on the heap is taken out until it is put back. One whose
    /// time has come is none, whether it was swept yet or not.
    pub(super) fn load(&mut self, seat: Seat, limit: &Limit, now: Time) -> Option<State> {
        let number = seat.lock(self.store);
        let now = now.as_nanos();
        match seat.room {
            Room::Narrow => {
                let slot = covering(&mut self.narrow, number).find(seat.place())?;
                let entry = slot.entry::<1>();
                let Engine::Meter(meter) = limit.engine() else { return None };
                (entry.full_at() > now).then(|| {
                    State::Meter(room::from_narrow(meter.scale(), entry.nibble, entry.words))
                })
            }
            Room::Wide => {
                let slot = covering(&mut self.wide, number).find(seat.place())?;
                let entry = slot.entry::<3>();
                (entry.full_at() > now).then(|| room::from_wide(limit, entry.words))
            }
            Room::Cold => {
                let shard = covering(&mut self.cold, number);
                Cold::take(shard, seat.fingerprint, now).filter(|state| state.fits(limit))
            }
            Room::Nowhere => None,
        }
    }

    /// The account of a check: the state in its seat, or carried over from a former one.
    pub(super) fn open<'c>(&mut self, check: &Check<'c>, seats: &[Seat], now: Time) -> Account<'c> {
        let state = self
            .look_up(check.limit, check.former, seats, now)
            .unwrap_or_else(|| State::fresh(check.limit, now));
        Account {
            lease: check.lease,
            patience: check.patience,
            ..Account::new(check.limit, state, check.cost)
        }
    }

    /// The state under `limit`: the one kept in the first seat, or what the limit before it kept
    /// in the next one, carried over.
    fn look_up(
        &mut self,
        limit: &Limit,
        former: Option<&Former>,
        seats: &[Seat],
        now: Time,
    ) -> Option<State> {
        self.load(seats[0], limit, now).or_else(|| {
            let former = former?;
            let older = former.former.as_deref();
            let state = self.look_up(&former.limit, older, &seats[1..], now)?;
            let mut account = Account::new(&former.limit, state, 0);
            account.carry(limit, former.until.min(now), former.carry);
            Some(account.state)
        })
    }

    /// Puts an account's state back where it belongs, and clears the seats it had before.
    pub(super) fn close(
        &mut self,
        mut account: Account<'_>,
        seats: &[Seat],
        action: Action,
        now: Time,
    ) {
        let seat = seats[0];
        let number = seat.lock(self.store);
        let full_at = account.full_at();
        // Looking at a new key does not make it known.
        let unknown = matches!(action, Action::Peek | Action::Try { .. }) && seats.len() == 1 && !self.has(seat, now);
        let forget = full_at <= now || action == Action::Reset || unknown;
        match seat.room {
            Room::Narrow => {
                let line = covering(&mut self.narrow, number);
                let State::Meter(state) = account.state else { return };
                let (nibble, words) = room::to_narrow(state);
                write(line, seat.place(), nibble, words, forget, now);
            }
            Room::Wide => {
                let (level, words) = (account.level(now), room::to_wide(&mut account));
                write(covering(&mut self.wide, number), seat.place(), level, words, forget, now);
            }
            Room::Cold => {
                let shard = covering(&mut self.cold, number);
                let full_at = if forget { Time::EPOCH } else { full_at };
                let level = account.level(now);
                let kept = Kept { state: account.state, full_at, level };
                self.store.cold.put(shard, seat.fingerprint, kept, now);
            }
            Room::Nowhere => {}
        }
        seats[1..].iter().for_each(|seat| self.clear(*seat));
    }

    fn clear(&mut self, seat: Seat) {
        let number = seat.lock(self.store);
        match seat.room {
            Room::Narrow => remove(covering(&mut self.narrow, number), seat.place()),
            Room::Wide => remove(covering(&mut self.wide, number), seat.place()),
            Room::Cold => {
                let shard = covering(&mut self.cold, number);
                self.store.cold.remove(shard, seat.fingerprint);
            }
            Room::Nowhere => {}
        }
    }
}

/// Writes a state to its slot, to a new one, or to none.
fn write<const W: usize, const N: usize>(
    line: &Locked<'_, W, N>,
    place: Place,
    nibble: u8,
    words: [u64; N],
    forget: bool,
    now: Time,
) {
    match line.find(place) {
        Some(slot) if forget => line.remove(slot),
        Some(slot) => slot.set(&super::line::Entry { nibble, words, ..slot.entry() }),
        None if forget => {}
        None => {
            line.insert(place, nibble, words, now.as_nanos());
        }
    }
}

fn remove<const W: usize, const N: usize>(line: &Locked<'_, W, N>, place: Place) {
    if let Some(slot) = line.find(place) {
        line.remove(slot);
    }
}
