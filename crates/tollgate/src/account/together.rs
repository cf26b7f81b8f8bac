//! Deciding several accounts as one: all of them, or none.

use smallvec::SmallVec;
use tollgate_core::{Span, Time, Verdict};

use super::{Account, State};
use crate::Verdicts;
use crate::store::Action;

/// What an account finds: a state that was named before in the same request is one state.
fn inherit(accounts: &mut [Account<'_>], i: usize, now: Time) {
    let Some(earlier) = accounts[i].same_as else { return };
    let state = accounts[earlier].state.clone();
    let fits = state.fits(accounts[i].limit);
    accounts[i].state = if fits { state } else { State::fresh(accounts[i].limit, now) };
}

/// Charges every account if each of them allows it, and none otherwise.
fn take(accounts: &mut [Account<'_>], now: Time, max_wait: Span) -> Verdicts {
    let mut before: SmallVec<[Option<State>; 4]> = SmallVec::new();
    let mut verdicts = Verdicts::new();
    let count = accounts.len();
    for i in 0..count {
        if accounts[i].same_as.is_some() {
            inherit(accounts, i, now);
        }
        let account = &mut accounts[i];
        // After the last nobody can object, unless somebody already has.
        let last = i + 1 == count && verdicts.iter().all(|verdict| verdict.allowed);
        let in_place = last && account.same_as.is_none();
        let seen = match account.state.small() {
            None if !in_place => Some(account.state.clone()),
            seen => seen,
        };
        let mut verdict = account.attempt(now, max_wait);
        if !verdict.allowed {
            account.restore(&seen);
            verdict = account.refuse(now);
            account.restore(&seen);
        }
        before.push(seen);
        verdicts.push(verdict);
    }
    if verdicts.iter().all(|verdict| verdict.allowed) {
        return verdicts;
    }
    for (account, before) in accounts.iter_mut().zip(&before) {
        account.restore(before);
    }
    for (i, verdict) in verdicts.iter_mut().enumerate() {
        inherit(accounts, i, now);
        let account = &mut accounts[i];
        if verdict.allowed {
            *verdict = Verdict::allow(account.capacity(), account.peek(now));
        } else if before[i].is_some() && account.counts_denied() {
            account.adjust(Action::Spend, now);
        }
    }
    verdicts
}

/// The verdict on a request of one check.
#[inline]
pub(crate) fn only(verdict: Verdict) -> Verdicts {
    let mut verdicts = Verdicts::new();
    verdicts.push(verdict);
    verdicts
}

/// The accounts of one request.
pub(crate) type Accounts<'a> = SmallVec<[Account<'a>; 2]>;

/// Does to the accounts what `action` says.
pub(crate) fn run(action: Action, accounts: &mut [Account<'_>], now: Time) -> Verdicts {
    match (action, accounts) {
        (_, [account]) => only(account.run(action, now)),
        (Action::Take { max_wait }, accounts) => take(accounts, now, max_wait),
        (_, accounts) => {
            let each = (0..accounts.len()).map(|i| {
                inherit(accounts, i, now);
                accounts[i].run(action, now)
            });
            each.collect()
        }
    }
}
