//! Decides one check on a state in this node's memory.

use smallvec::{SmallVec, smallvec};
use tollgate::state::{self, State};
use tollgate::{Action, Check, Limit, LimitAlgorithm, Retry, Span, StoreCall, Time, Verdict};
use tollgate_core::Algorithm;

use crate::backend::Backend;
use crate::strict::in_micros;

/// Applies an action to a state.
pub(crate) fn apply(
    action: Action,
    check: &Check<'_>,
    state: &mut Option<State>,
    now: Time,
) -> Verdict {
    let mut states: SmallVec<[Option<State>; 1]> = smallvec![state.take()];
    let call = StoreCall { action, checks: std::slice::from_ref(check) };
    let verdicts = state::run(call, &mut states, now);
    *state = states.pop().flatten();
    in_micros(verdicts[0])
}

/// Returns the verdict that a take would get.
pub(crate) fn try_take(
    check: &Check<'_>,
    state: &Option<State>,
    now: Time,
    max_wait: Span,
) -> Verdict {
    apply(Action::Try { max_wait }, check, &mut state.clone(), now)
}

/// Returns the verdict of a check that passes, in a request that another check refuses.
pub(crate) fn current_verdict(check: &Check<'_>, state: &Option<State>, now: Time) -> Verdict {
    let verdict = apply(Action::Peek, check, &mut state.clone(), now);
    Verdict { allowed: true, retry: Retry::Now, ..verdict }
}

/// Returns whether a limit counts refusals.
pub(crate) fn counts_denied(limit: &Limit) -> bool {
    match limit.algorithm() {
        LimitAlgorithm::FixedWindow(window) => window.counts_denied(),
        LimitAlgorithm::SlidingWindow(window) => window.counts_denied(),
        LimitAlgorithm::SlidingSlots(slots) => slots.counts_denied(),
        LimitAlgorithm::SlidingLog(log) => log.counts_denied(),
        _ => false,
    }
}

/// Returns whether a limit is on concurrency, where permits come back at unknown times.
pub(crate) fn limits_concurrency(limit: &Limit) -> bool {
    matches!(limit.algorithm(), LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_))
}

/// The current time: the latest possible one at the store, and the local one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    pub(crate) store: Time,
    pub(crate) local: Time,
}

impl ClockReading {
    /// Returns the current time; `None` if the store's clock is unknown.
    pub(crate) fn now(backend: &impl Backend, check: &Check<'_>) -> Option<ClockReading> {
        Some(ClockReading { store: backend.latest(check)?, local: backend.clock().now() })
    }
}
