//! Deciding several accounts as one: all of them are charged, or none.

use smallvec::SmallVec;
use tollgate_core::{Span, Time, Verdict};

use super::{Account, State};
use crate::Verdicts;
use crate::store::Action;

/// Copies the state of the earlier account that has the same one, if there is such an account.
fn inherit(accounts: &mut [Account<'_>], i: usize, now: Time) {
    let Some(earlier) = accounts[i].same_as else { return };
    let state = accounts[earlier].state.clone();
    let fits = state.fits(accounts[i].limit);
    accounts[i].state = if fits { state } else { State::fresh(accounts[i].limit, now) };
}

/// Charges every account if each of them allows it, and none otherwise.
fn take(accounts: &mut [Account<'_>], now: Time, max_wait: Span, verdicts: &mut Verdicts) {
    let mut before: SmallVec<[Option<State>; 4]> = SmallVec::new();
    let (count, mut refused) = (accounts.len(), false);
    for i in 0..count {
        if accounts[i].same_as.is_some() {
            inherit(accounts, i, now);
        }
        let account = &mut accounts[i];
        // The last account needs no copy to restore, unless an earlier one has refused.
        let in_place = i + 1 == count && !refused && account.same_as.is_none();
        let seen = match account.state.small_copy() {
            None if !in_place => Some(account.state.clone()),
            seen => seen,
        };
        let mut verdict = account.attempt(now, max_wait);
        if !verdict.allowed {
            refused = true;
            account.restore(&seen);
            verdict = account.refuse(now);
            account.restore(&seen);
        }
        before.push(seen);
        verdicts.push(verdict);
    }
    if !refused {
        return;
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
}

/// Runs `action` on the accounts; adds a verdict to `verdicts` for each of them.
pub(crate) fn run(
    action: Action,
    accounts: &mut [Account<'_>],
    now: Time,
    verdicts: &mut Verdicts,
) {
    match (action, accounts) {
        (_, [account]) => verdicts.push(account.run(action, now)),
        (Action::Take { max_wait }, accounts) => take(accounts, now, max_wait, verdicts),
        (_, accounts) => {
            for i in 0..accounts.len() {
                inherit(accounts, i, now);
                verdicts.push(accounts[i].run(action, now));
            }
        }
    }
}
