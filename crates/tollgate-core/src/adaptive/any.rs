//! One type for whichever controller a rule asked for.

use super::{Aimd, AimdState, Bulkhead, BulkheadState, Controller, Gradient, GradientState};
use super::{Sample, Vegas, VegasState};

/// Any of the controllers, chosen at run time.
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Aimd, AnyController, Controller, Sample};
/// let any = AnyController::Aimd(Aimd::new(20, 200)?);
/// let state = any.update(any.start(), Sample::ok(Span::from_millis(1), 20));
/// assert_eq!(any.limit(&state), 21);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyController {
    /// Drops only.
    Aimd(Aimd),
    /// Latency against the best.
    Vegas(Vegas),
    /// Latency against the average.
    Gradient(Gradient),
    /// The share of failed and slow calls.
    Bulkhead(Bulkhead),
}

/// What an [`AnyController`] remembers.
///
/// ```
/// use tollgate_core::adaptive::{AnyController, Controller, Gradient};
/// assert_eq!(AnyController::Gradient(Gradient::new(20, 200)?).start().limit(), 20);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnyControllerState {
    /// Of an [`Aimd`].
    Aimd(AimdState),
    /// Of a [`Vegas`].
    Vegas(VegasState),
    /// Of a [`Gradient`].
    Gradient(GradientState),
    /// Of a [`Bulkhead`].
    Bulkhead(BulkheadState),
}

impl AnyControllerState {
    /// The limit now.
    pub const fn limit(&self) -> u64 {
        match self {
            AnyControllerState::Aimd(state) => state.limit(),
            AnyControllerState::Vegas(state) => state.limit(),
            AnyControllerState::Gradient(state) => state.limit(),
            AnyControllerState::Bulkhead(state) => state.limit(),
        }
    }
}

impl Controller for AnyController {
    type State = AnyControllerState;

    fn start(&self) -> AnyControllerState {
        match self {
            AnyController::Aimd(it) => AnyControllerState::Aimd(it.start()),
            AnyController::Vegas(it) => AnyControllerState::Vegas(it.start()),
            AnyController::Gradient(it) => AnyControllerState::Gradient(it.start()),
            AnyController::Bulkhead(it) => AnyControllerState::Bulkhead(it.start()),
        }
    }

    fn update(&self, state: AnyControllerState, sample: Sample) -> AnyControllerState {
        self.digest(state, sample, 1)
    }

    /// A state of another controller (the rule was changed) counts as none.
    fn digest(&self, state: AnyControllerState, sample: Sample, requests: u64) -> Self::State {
        use AnyControllerState as State;
        match (self, state) {
            (AnyController::Aimd(it), State::Aimd(s)) => {
                State::Aimd(it.digest(s, sample, requests))
            }
            (AnyController::Vegas(it), State::Vegas(s)) => {
                State::Vegas(it.digest(s, sample, requests))
            }
            (AnyController::Gradient(it), State::Gradient(s)) => {
                State::Gradient(it.digest(s, sample, requests))
            }
            (AnyController::Bulkhead(it), State::Bulkhead(s)) => {
                State::Bulkhead(it.digest(s, sample, requests))
            }
            _ => self.digest(self.start(), sample, requests),
        }
    }

    fn limit(&self, state: &AnyControllerState) -> u64 {
        state.limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    #[test]
    fn a_changed_rule_starts_afresh() {
        let aimd = AnyController::Aimd(Aimd::new(20, 200).unwrap());
        let vegas = AnyController::Vegas(Vegas::new(50, 100).unwrap());
        let state = vegas.update(aimd.start(), Sample::ok(Span::from_millis(1), 1));
        assert_eq!(state.limit(), 50);
    }
}
