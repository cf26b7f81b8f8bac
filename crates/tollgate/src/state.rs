//! For those who write a store: states as values, and what a call does to them.
//!
//! A store that keeps its states elsewhere reads them, has [`run`] decide, and writes what became
//! of them; or it has a copy of the algorithms where the states are, and only words the answer
//! here. Either way every store says the same.
//!
//! ```
//! use tollgate::state::{self, State};
//! use tollgate::{Action, Bucket, Call, Check, Limit, Span, Time};
//!
//! let limit: Limit = "3/min fixed".parse()?;
//! let checks = [Check::new(Bucket::new(0), "ann", &limit, 2)];
//! let call = Call { action: Action::Take { max_wait: Span::ZERO }, checks: &checks };
//! let mut states = [None];
//! assert!(state::run(call, &mut states, Time::EPOCH)[0].allowed);
//! assert!(matches!(states[0], Some(State::FixedWindow(_))));
//! assert!(!state::run(call, &mut states, Time::EPOCH)[0].allowed);
//! # Ok::<(), tollgate::limit::ParseLimitError>(())
//! ```

use smallvec::SmallVec;
use tollgate_core::Time;

pub use crate::account::State;
pub use crate::adaptive::AdaptiveState;

use crate::account::{self, Account, Accounts};
use crate::store::{Action, Call, Check, Former};
use crate::{Limit, Verdicts};

/// Does to the states what the call says, and words the answer. A state is `None` where nothing is
/// remembered, before and after; checks on the same counter must bring the same state, and leave
/// the last of them with what became of it.
pub fn run(call: Call<'_>, states: &mut [Option<State>], now: Time) -> Verdicts {
    let Call { action, checks } = call;
    let mut accounts = Accounts::new();
    for (i, check) in checks.iter().enumerate() {
        let state = states[i].take().filter(|state| is_live(state, check.limit, now));
        let same_as = checks[..i].iter().rposition(|earlier| earlier.is_about_the_same_as(check));
        accounts.push(Account { same_as, ..Account::open(check, state, now) });
    }
    let verdicts = account::run(action, &mut accounts, now);
    for (state, mut account) in states.iter_mut().zip(accounts) {
        let kept = action != Action::Reset && account.full_at() > now;
        *state = kept.then_some(account.state);
    }
    verdicts
}

/// Whether there is anything in a state that is still worth knowing under a limit.
pub fn is_live(state: &State, limit: &Limit, now: Time) -> bool {
    state.fits(limit) && state.full_at(limit) > now
}

/// The limits that came before a check's own, the latest first.
pub fn formers<'a>(check: &Check<'a>) -> impl Iterator<Item = &'a Former> + use<'a> {
    std::iter::successors(check.former, |former| former.former.as_deref())
}

/// What a key brings along from the limits before its own, given what is remembered of it under
/// each of its [`formers`].
pub fn carried(check: &Check<'_>, remembered: Vec<Option<State>>, now: Time) -> Option<State> {
    let limits: SmallVec<[&Limit; 4]> =
        std::iter::once(check.limit).chain(formers(check).map(|former| &former.limit)).collect();
    let (at, state) =
        remembered.into_iter().zip(&limits[1..]).enumerate().find_map(|(at, (state, limit))| {
            Some((at, state.filter(|state| is_live(state, limit, now))?))
        })?;
    // From the oldest limit that knows the key to the newest, one change after the other.
    let changes: SmallVec<[&Former; 4]> = formers(check).take(at + 1).collect();
    let mut account = Account::new(limits[at + 1], state, 0);
    for (former, to) in changes.iter().zip(&limits).rev() {
        account.carry(to, former.until.min(now), former.carry);
    }
    Some(account.state)
}
