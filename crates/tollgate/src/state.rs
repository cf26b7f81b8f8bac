//! Building blocks for store implementations: states as values, and calls that run on them.
//!
//! A store outside this process reads its states, decides with [`run`] and writes the new states
//! back; or it has a copy of the algorithms next to its states. All stores return the same
//! verdicts.
//!
//! ```
//! use tollgate::state::{self, State};
//! use tollgate::{Action, CounterId, StoreCall, Check, Limit, Span, Time};
//!
//! let limit: Limit = "3/min fixed".parse()?;
//! let checks = [Check::new(CounterId::new(0), "ann", &limit, 2)];
//! let call = StoreCall { action: Action::Take { max_wait: Span::ZERO }, checks: &checks };
//! let mut states = [None];
//! assert!(state::run(call, &mut states, Time::EPOCH)[0].allowed);
//! assert!(matches!(states[0], Some(State::FixedWindow(_))));
//! assert!(!state::run(call, &mut states, Time::EPOCH)[0].allowed);
//! # Ok::<(), tollgate::limit::ParseLimitError>(())
//! ```

use smallvec::SmallVec;
use tollgate_core::{Time, Verdict};

pub use crate::account::State;
pub use crate::adaptive::AdaptiveState;
pub use crate::counters::new_lease;
pub use crate::denied::refusal;
pub use crate::identity::stable_hash;
pub use crate::rewind::{is_ahead, rewind};

use crate::account::{self, Account, Slots};
use crate::store::{Check, PreviousLimit, StoreCall};
use crate::{Limit, Verdicts};

/// Runs a call on states and returns the verdicts.
///
/// An absent state is `None`, before and after. Checks on the same counter must have the same
/// state; the last of them gets the new one.
pub fn run(call: StoreCall<'_>, states: &mut [Option<State>], now: Time) -> Verdicts {
    let StoreCall { action, checks } = call;
    let mut verdicts = Verdicts::new();
    let done = account::run_on(&mut StateSlots { checks, states }, action, now, &mut verdicts);
    done.expect("states in a slice are never full");
    verdicts
}

/// The states that the caller of [`run`] has read from its store.
struct StateSlots<'s, 'c> {
    checks: &'s [Check<'c>],
    states: &'s mut [Option<State>],
}

impl<'c> Slots<'c> for StateSlots<'_, 'c> {
    fn len(&self) -> usize {
        self.checks.len()
    }

    fn open(&mut self, i: usize, now: Time) -> Account<'c> {
        let check = &self.checks[i];
        let state = self.states[i].take().filter(|state| is_live(state, check.limit, now));
        let same_as = self.checks[..i].iter().rposition(|earlier| earlier.is_same_counter(check));
        Account { same_as, ..Account::open(check, state, now) }
    }

    fn close(&mut self, i: usize, account: &mut Account<'c>, _verdict: &Verdict, now: Time) {
        let is_live = account.full_at() > now;
        self.states[i] = is_live.then(|| std::mem::replace(&mut account.state, State::Nothing));
    }

    fn clear(&mut self, i: usize, _account: &mut Account<'c>) {
        self.states[i] = None;
    }
}

/// Returns whether a state fits a limit and has not expired.
pub fn is_live(state: &State, limit: &Limit, now: Time) -> bool {
    state.fits(limit) && state.full_at(limit) > now
}

/// Iterates over the limits that the limit of a check has replaced, the latest first.
pub fn previous_limits<'a>(check: &Check<'a>) -> impl Iterator<Item = &'a PreviousLimit> + use<'a> {
    std::iter::successors(check.previous, |previous| previous.previous.as_deref())
}

/// Returns the state that a key carries over from the [`previous_limits`] of a check.
///
/// `stored` has the state of the key under each of them. The latest one that has not expired
/// counts.
pub fn carried(check: &Check<'_>, stored: Vec<Option<State>>, now: Time) -> Option<State> {
    let limits: SmallVec<[&Limit; 4]> = std::iter::once(check.limit)
        .chain(previous_limits(check).map(|previous| &previous.limit))
        .collect();
    let (at, state) =
        stored.into_iter().zip(&limits[1..]).enumerate().find_map(|(at, (state, limit))| {
            Some((at, state.filter(|state| is_live(state, limit, now))?))
        })?;
    // The state is carried over one change after the other, up to the limit of the check.
    let changes: SmallVec<[&PreviousLimit; 4]> = previous_limits(check).take(at + 1).collect();
    let mut account = Account::new(limits[at + 1], state, 0);
    for (previous, to) in changes.iter().zip(&limits).rev() {
        account.carry(to, previous.until.min(now), previous.carry);
    }
    Some(account.state)
}
