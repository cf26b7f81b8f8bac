//! One check on a state that this node knows of.

use smallvec::{SmallVec, smallvec};
use tollgate::state::{self, State};
use tollgate::{Action, Call, Check, Engine, Limit, Retry, Span, Time, Verdict};
use tollgate_core::Algorithm;

use super::truth::Truth;
use crate::strict::in_micros;

/// Does to a state what the action says.
pub(super) fn act(
    action: Action,
    check: &Check<'_>,
    state: &mut Option<State>,
    now: Time,
) -> Verdict {
    let mut states: SmallVec<[Option<State>; 1]> = smallvec![state.take()];
    let call = Call { action, checks: std::slice::from_ref(check) };
    let verdicts = state::run(call, &mut states, now);
    *state = states.pop().flatten();
    in_micros(verdicts[0])
}

/// What taking would be answered.
pub(super) fn tried(
    check: &Check<'_>,
    state: &Option<State>,
    now: Time,
    max_wait: Span,
) -> Verdict {
    act(Action::Try { max_wait }, check, &mut state.clone(), now)
}

/// How things stand for a check that nobody refuses, in a request that is refused.
pub(super) fn stands(check: &Check<'_>, state: &Option<State>, now: Time) -> Verdict {
    let verdict = act(Action::Peek, check, &mut state.clone(), now);
    Verdict { allowed: true, retry: Retry::Now, ..verdict }
}

/// Whether a refusal is itself counted.
pub(super) fn counts_denied(limit: &Limit) -> bool {
    match limit.engine() {
        Engine::FixedWindow(window) => window.counts_denied(),
        Engine::SlidingWindow(window) => window.counts_denied(),
        Engine::SlidingSlots(slots) => slots.counts_denied(),
        Engine::SlidingLog(log) => log.counts_denied(),
        _ => false,
    }
}

/// Whether holders give back what they took, and when they do nobody can know.
pub(super) fn is_held(limit: &Limit) -> bool {
    matches!(limit.engine(), Engine::Concurrent(_) | Engine::Adaptive(_))
}

/// What time it is: at most, at the store, and here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) store: Time,
    pub(super) here: Time,
}

impl Moment {
    /// None if nothing is known of the store's clock.
    pub(super) fn of(truth: &impl Truth, check: &Check<'_>) -> Option<Moment> {
        Some(Moment { store: truth.latest(check)?, here: truth.clock().now() })
    }
}
