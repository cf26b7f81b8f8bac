//! States of a store whose clock steps back, for any limit.

use tollgate_core::{Rewind, Time};

use crate::account::State;
use crate::limit::{Limit, LimitAlgorithm};

/// Returns whether a state reaches further ahead of `now` than the limit takes a key without debt.
///
/// A store that writes such a state writes the time as well, for [`rewind`].
pub fn is_ahead(state: &State, limit: &Limit, now: Time) -> bool {
    match (limit.algorithm(), state) {
        (LimitAlgorithm::Meter(meter), State::Meter(state)) => meter.is_ahead(state, now),
        (LimitAlgorithm::FixedWindow(window), State::FixedWindow(state)) => {
            window.is_ahead(state, now)
        }
        (LimitAlgorithm::SlidingWindow(window), State::SlidingWindow(state)) => {
            window.is_ahead(state, now)
        }
        (LimitAlgorithm::SlidingSlots(slots), State::SlidingSlots(state)) => {
            slots.is_ahead(state, now)
        }
        (LimitAlgorithm::SlidingLog(log), State::SlidingLog(state)) => log.is_ahead(state, now),
        (LimitAlgorithm::WarmUp(limit), State::WarmUp(state)) => limit.is_ahead(state, now),
        (LimitAlgorithm::Concurrent(limit), State::Leases(state)) => limit.is_ahead(state, now),
        _ => false,
    }
}

/// Moves a state back if the clock has stepped back since it was written; returns whether it has.
///
/// `written` is the time of writing of a state that was [ahead](is_ahead) then. Afterwards the key
/// waits no longer than it had to when the state was written, and owes no less.
///
/// ```
/// use tollgate::state::{self, State};
/// use tollgate::{Action, Check, CounterId, Limit, Span, StoreCall, Time};
///
/// let limit: Limit = "3/min fixed".parse()?;
/// let checks = [Check::new(CounterId::new(0), "ann", &limit, 3)];
/// let call = StoreCall { action: Action::Take { max_wait: Span::ZERO }, checks: &checks };
/// let (now, mut states) = (Time::from_nanos(1_767_268_800_000_000_000), [None]);
/// state::run(call, &mut states, now);
/// let earlier = now - Span::from_secs(3_600);
/// let spent = states[0].as_mut().unwrap();
/// assert!(state::rewind(spent, &limit, None, earlier));
/// assert!(spent.full_at(&limit) <= earlier + Span::from_secs(60));
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
pub fn rewind(state: &mut State, limit: &Limit, written: Option<Time>, now: Time) -> bool {
    match (limit.algorithm(), state) {
        (LimitAlgorithm::Meter(meter), State::Meter(state)) => meter.rewind(state, written, now),
        (LimitAlgorithm::FixedWindow(window), State::FixedWindow(state)) => {
            window.rewind(state, written, now)
        }
        (LimitAlgorithm::SlidingWindow(window), State::SlidingWindow(state)) => {
            window.rewind(state, written, now)
        }
        (LimitAlgorithm::SlidingSlots(slots), State::SlidingSlots(state)) => {
            slots.rewind(state, written, now)
        }
        (LimitAlgorithm::SlidingLog(log), State::SlidingLog(state)) => {
            log.rewind(state, written, now)
        }
        (LimitAlgorithm::WarmUp(limit), State::WarmUp(state)) => limit.rewind(state, written, now),
        (LimitAlgorithm::Concurrent(limit), State::Leases(state)) => {
            limit.rewind(state, written, now)
        }
        _ => false,
    }
}
