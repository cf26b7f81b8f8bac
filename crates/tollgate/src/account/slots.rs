//! Deciding on slots: the one function that opens accounts, decides and writes the states back.
//!
//! A store provides the locked slots of a request as [`Slots`]; the rest is the same for all
//! stores.

use std::slice;

use smallvec::SmallVec;
use tollgate_core::{Time, Verdict};

use super::{Account, State, run as run_accounts};
use crate::Verdicts;
use crate::store::Action;

/// Checks of one request that are decided without a heap allocation.
pub(crate) const INLINE_CHECKS: usize = 6;

/// The locked slots of one request: where the state of each check is read and written.
///
/// A slot is vacant if it has no state of its key. A store with a maximum number of keys adds a
/// state to a vacant slot only after a reservation, so that it never holds more.
pub(crate) trait Slots<'c> {
    /// Returns the number of checks.
    fn len(&self) -> usize;

    /// Opens the account of check `i`. Checks are opened in order.
    fn open(&mut self, i: usize, now: Time) -> Account<'c>;

    /// Returns whether slot `i` was vacant when its account was opened.
    fn is_vacant(&self, _i: usize) -> bool {
        false
    }

    /// Returns whether the key of check `i` is new: without a state and without a previous limit.
    fn is_new(&self, _i: usize, _now: Time) -> bool {
        false
    }

    /// Reserves a key for the vacant slot `i`; returns `false` if the store is full.
    fn reserve(&mut self, _i: usize) -> bool {
        true
    }

    /// Returns all reservations.
    fn cancel_reservations(&mut self) {}

    /// Undoes the opening of check `i`, which found `state`.
    fn reopen(&mut self, _i: usize, _state: State) {}

    /// Removes the states that were carried over from previous limits.
    fn clear_previous(&mut self) {}

    /// Writes the state of an account, unless it equals an absent one.
    ///
    /// `verdict` describes the state.
    fn close(&mut self, i: usize, account: &mut Account<'c>, verdict: &Verdict, now: Time);

    /// Removes the state of a key; `account` has the one that is left of it.
    fn clear(&mut self, i: usize, account: &mut Account<'c>);
}

/// The store is full: it cannot add the keys of a request, which has changed nothing yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreFull {
    /// The number of keys that the request adds.
    pub(crate) keys: u64,
}

/// Runs `action` on the slots of a request; adds a verdict to `verdicts` for each check.
#[inline]
pub(crate) fn run_on<'c>(
    slots: &mut impl Slots<'c>,
    action: Action,
    now: Time,
    verdicts: &mut Verdicts,
) -> Result<(), StoreFull> {
    if slots.len() == 1 {
        return run_on_single(slots, action, now).map(|verdict| verdicts.push(verdict));
    }
    let mut accounts: SmallVec<[Account<'c>; INLINE_CHECKS]> = SmallVec::new();
    for i in 0..slots.len() {
        accounts.push(slots.open(i, now));
    }
    match reserve(slots, action, accounts.len(), now, |_| true) {
        Ok(()) => run_accounts(action, &mut accounts, now, verdicts),
        Err(StoreFull { .. }) => run_when_full(slots, action, &mut accounts, now, verdicts)?,
    }
    slots.clear_previous();
    for (i, (account, verdict)) in accounts.iter_mut().zip(&*verdicts).enumerate() {
        write_back(slots, action, i, account, verdict, now);
    }
    Ok(())
}

/// Runs `action` on the slot of a request with one check.
#[inline(always)]
pub(crate) fn run_on_single<'c>(
    slots: &mut impl Slots<'c>,
    action: Action,
    now: Time,
) -> Result<Verdict, StoreFull> {
    let mut account = slots.open(0, now);
    let verdict = match reserve(slots, action, 1, now, |_| true) {
        Ok(()) => account.run(action, now),
        Err(StoreFull { .. }) => {
            let (accounts, mut verdicts) = (slice::from_mut(&mut account), Verdicts::new());
            run_when_full(slots, action, accounts, now, &mut verdicts)?;
            verdicts[0]
        }
    };
    slots.clear_previous();
    write_back(slots, action, 0, &mut account, &verdict, now);
    Ok(verdict)
}

/// Writes the state of an account back to its slot.
#[inline(always)]
fn write_back<'c>(
    slots: &mut impl Slots<'c>,
    action: Action,
    i: usize,
    account: &mut Account<'c>,
    verdict: &Verdict,
    now: Time,
) {
    if !writes_state(slots, action, i, now) {
        return slots.clear(i, account);
    }
    match action {
        // The verdict of a trial describes a state that is discarded.
        Action::Try { .. } => {
            let verdict = account.peek_verdict(now);
            slots.close(i, account, &verdict, now);
        }
        _ => slots.close(i, account, verdict, now),
    }
}

/// Decides on a store that is too full to fill all vacant slots.
///
/// The decision may add no key at all, as when it is a refusal; then it stands. Otherwise the
/// caller evicts keys and starts over, so that a refused request evicts nothing.
#[cold]
#[inline(never)]
fn run_when_full<'c>(
    slots: &mut impl Slots<'c>,
    action: Action,
    accounts: &mut [Account<'c>],
    now: Time,
    verdicts: &mut Verdicts,
) -> Result<(), StoreFull> {
    let before: SmallVec<[State; INLINE_CHECKS]> =
        accounts.iter().map(|account| account.state.clone()).collect();
    run_accounts(action, accounts, now, verdicts);
    let count = accounts.len();
    let reserved = reserve(slots, action, count, now, |i| accounts[i].full_at() > now);
    if reserved.is_err() {
        verdicts.clear();
        for (i, state) in before.into_iter().enumerate() {
            slots.reopen(i, state);
        }
    }
    reserved
}

/// Reserves a key for every vacant slot to which `action` may add one, or for none of them.
#[inline(always)]
fn reserve<'c>(
    slots: &mut impl Slots<'c>,
    action: Action,
    count: usize,
    now: Time,
    mut adds: impl FnMut(usize) -> bool,
) -> Result<(), StoreFull> {
    let (mut wanted, mut full) = (0, false);
    for i in 0..count {
        if slots.is_vacant(i) && writes_state(slots, action, i, now) && adds(i) {
            wanted += 1;
            full = full || !slots.reserve(i);
        }
    }
    if full {
        slots.cancel_reservations();
        return Err(StoreFull { keys: wanted });
    }
    Ok(())
}

/// Returns whether `action` writes the state of check `i` back. Peeking adds no key.
#[inline(always)]
fn writes_state<'c>(slots: &impl Slots<'c>, action: Action, i: usize, now: Time) -> bool {
    match action {
        Action::Reset => false,
        Action::Peek | Action::Try { .. } => !slots.is_new(i, now),
        _ => true,
    }
}
