//! Running a call: a short road for one check, and one for all others.

use smallvec::SmallVec;
use tollgate_core::{Time, Verdict};

use super::locks::Held;
use super::room::Room;
use super::seat::Seat;
use super::spot::{Shelf, Spot};
use super::{MANY, MemoryStore, Table};
use crate::Verdicts;
use crate::account::{self, Account};
use crate::key::Fingerprint;
use crate::state::formers;
use crate::store::{Action, Call, Check};

impl MemoryStore {
    /// Runs a call at `now`.
    pub(crate) fn run_at(&self, call: Call<'_>, now: Time) -> Verdicts {
        self.run_unless(call, now, || false).expect("always up to date")
    }

    /// Runs a call at `now`, unless it is found to be out of date once its keys are locked.
    pub(crate) fn run_unless(
        &self,
        call: Call<'_>,
        now: Time,
        outdated: impl Fn() -> bool,
    ) -> Option<Verdicts> {
        if let [check @ Check { former: None, .. }] = call.checks {
            let one = match Room::of(check.limit) {
                Room::Narrow => self.run_one(&self.narrow, call.action, check, now, &outdated),
                Room::Wide => self.run_one(&self.wide, call.action, check, now, &outdated),
                Room::Cold | Room::Nowhere => return self.run_all(call, now, &outdated),
            };
            return one.map(account::only);
        }
        self.run_all(call, now, &outdated)
    }

    /// One check on a state in a table: one line, one lock.
    #[inline]
    fn run_one<'a, const W: usize, const N: usize>(
        &'a self,
        table: &'a Table<W, N>,
        action: Action,
        check: &Check<'_>,
        now: Time,
        outdated: &impl Fn() -> bool,
    ) -> Option<Verdict>
    where
        Spot<'a, W, N>: Shelf,
    {
        let seat = Seat::of(self, check.bucket, check.key, check.limit);
        let (line, slot) = table.approach(seat.place()).lock_and_find();
        if outdated() {
            return None;
        }
        let spot = Spot::new(*line, seat.place(), slot);
        let mut account = Account::open(check, spot.load(check.limit, now), now);
        let verdict = account.run(action, now);
        let first = match forgets(action, check, || spot.read(now).is_some()) {
            true => {
                spot.forget();
                false
            }
            false => {
                let left = left_by(action, &mut account, verdict, now);
                spot.save(&mut account, &left, now)
            }
        };
        drop(line);
        if first {
            self.settle(seat.fingerprint, now);
        }
        Some(verdict)
    }

    /// Any checks on any states, under all their locks.
    fn run_all(&self, call: Call<'_>, now: Time, outdated: &impl Fn() -> bool) -> Option<Verdicts> {
        let count = call.checks.iter().map(|check| 1 + formers(check).count()).sum();
        if count <= MANY {
            self.run_seated(call, &mut [Seat::FREE; MANY][..count], now, outdated)
        } else {
            self.run_seated(call, &mut vec![Seat::FREE; count], now, outdated)
        }
    }

    /// The same, given room for the seats of all checks, followed by those they had under limits
    /// that were since replaced.
    fn run_seated<'a>(
        &'a self,
        call: Call<'_>,
        seats: &mut [Seat<'a>],
        now: Time,
        outdated: &impl Fn() -> bool,
    ) -> Option<Verdicts> {
        let Call { action, checks } = call;
        let (own, older) = seats.split_at_mut(checks.len());
        for (seat, check) in own.iter_mut().zip(checks) {
            seat.take(self, check.bucket, check.key, check.limit);
        }
        let replaced = checks.iter().flat_map(|check| formers(check).map(|f| (check.key, f)));
        for (seat, (key, former)) in older.iter_mut().zip(replaced) {
            seat.take(self, former.bucket, key, &former.limit);
        }
        let near = own.first().map_or(Fingerprint::default(), |seat| seat.fingerprint);
        let mut held = Held::new(self, seats);
        if outdated() {
            return None;
        }
        let mut added = false;
        let verdicts = decide(action, checks, &mut held, &mut added, now);
        held.release();
        if added {
            self.settle(near, now);
        }
        Some(verdicts)
    }

    /// Keeps the store in shape and within its cap after keys were added.
    fn settle(&self, near: Fingerprint, now: Time) {
        self.narrow.tend(now.as_nanos());
        self.wide.tend(now.as_nanos());
        self.keep_cap(near);
    }
}

/// Opens the accounts of all checks, runs the action on them and puts them back.
#[inline]
fn decide(
    action: Action,
    checks: &[Check<'_>],
    held: &mut Held<'_, '_>,
    added: &mut bool,
    now: Time,
) -> Verdicts {
    let mut accounts: SmallVec<[Account<'_>; MANY]> = SmallVec::new();
    let mut older = checks.len();
    for (i, check) in checks.iter().enumerate() {
        accounts.push(held.open(check, i, older, now));
        older += formers(check).count();
    }
    let verdicts = account::run(action, &mut accounts, now);
    // What was carried over is gone from where it was.
    (checks.len()..older).for_each(|seat| held.clear(seat));
    for (i, check) in checks.iter().enumerate() {
        match forgets(action, check, || held.has(i, now)) {
            true => held.clear(i),
            false => {
                let left = left_by(action, &mut accounts[i], verdicts[i], now);
                *added |= held.close(i, &mut accounts[i], &left, now);
            }
        }
    }
    verdicts
}

/// A verdict that describes the state an action left: that of a trial is about one never kept.
#[inline]
fn left_by(action: Action, account: &mut Account<'_>, verdict: Verdict, now: Time) -> Verdict {
    match action {
        Action::Try { .. } => account.look(now),
        _ => verdict,
    }
}

/// Whether nothing is to be kept. Looking at a new key does not make it known.
#[inline]
fn forgets(action: Action, check: &Check<'_>, known: impl FnOnce() -> bool) -> bool {
    match action {
        Action::Reset => true,
        Action::Peek | Action::Try { .. } => check.former.is_none() && !known(),
        _ => false,
    }
}
