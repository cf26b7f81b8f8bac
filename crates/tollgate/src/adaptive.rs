//! Concurrency limits that adapt to the latency of what they protect, separately for each key.

use tollgate_core::adaptive::{
    Aimd, AimdState, Controller, Flow, FlowState, Gradient, GradientState, Sample, Vegas,
    VegasState, WindowedController, WindowedControllerState,
};
use tollgate_core::{Concurrency, ConcurrencyState, Span, Time};

use crate::limit::{AdaptiveRange, ControllerKind};

/// How long a level is stored while no request is in flight.
const LEVEL_LIFETIME: Span = Span::from_secs(600);

/// The state of an adaptive limit: the leases in flight, and the level its controller has found.
#[derive(Clone, Debug)]
pub struct AdaptiveState {
    pub(crate) leases: ConcurrencyState,
    controller: ControllerState,
    /// When the last request was measured; [`Time::EPOCH`] before the first.
    sampled_at: Time,
}

/// The state of a limit's controller.
#[derive(Clone, Debug)]
enum ControllerState {
    Flow(FlowState),
    Aimd(AimdState),
    Vegas(VegasState),
    Gradient2(WindowedControllerState<GradientState>),
}

/// The panic message for bounds that a [`Limit`](crate::Limit) has validated when it was created.
const VALIDATED: &str = "a limit validates its bounds";

/// Creates the default controller.
fn flow(range: &AdaptiveRange) -> Flow {
    Flow::new(range.min, range.max).expect(VALIDATED)
}

/// Creates an AIMD controller with its published parameters, updated by every request.
fn aimd(range: &AdaptiveRange) -> Aimd {
    Aimd::new(range.min, range.max).expect(VALIDATED)
}

/// Creates a Vegas controller with its published parameters, updated by every request.
fn vegas(range: &AdaptiveRange) -> Vegas {
    Vegas::new(range.min, range.max).expect(VALIDATED).as_netflix()
}

/// Creates a Gradient2 controller with its published parameters, updated once a second.
fn gradient2(range: &AdaptiveRange, initial: u64) -> WindowedController<Gradient> {
    let gradient = Gradient::new(range.min, range.max).expect(VALIDATED).as_netflix();
    WindowedController::new(gradient.initial(initial))
}

impl ControllerState {
    /// Creates the state of a controller that begins at the limit `initial`.
    fn new(range: &AdaptiveRange, initial: u64) -> ControllerState {
        match range.controller {
            ControllerKind::Flow => ControllerState::Flow(flow(range).initial(initial).start()),
            ControllerKind::Aimd => ControllerState::Aimd(aimd(range).initial(initial).start()),
            ControllerKind::Vegas => ControllerState::Vegas(vegas(range).initial(initial).start()),
            ControllerKind::Gradient2 => {
                ControllerState::Gradient2(gradient2(range, initial).start())
            }
        }
    }

    /// Returns the current limit.
    fn limit(&self, range: &AdaptiveRange) -> u64 {
        match self {
            ControllerState::Flow(state) => state.limit(),
            ControllerState::Aimd(state) => state.limit(),
            ControllerState::Vegas(state) => state.limit(),
            ControllerState::Gradient2(state) => gradient2(range, range.min).limit(state),
        }
    }

    /// Updates the limit by the measurement of one request.
    fn update(&mut self, range: &AdaptiveRange, now: Time, sample: Sample) {
        match self {
            ControllerState::Flow(state) => flow(range).update(state, now, sample),
            ControllerState::Aimd(state) => *state = aimd(range).update(*state, sample),
            ControllerState::Vegas(state) => *state = vegas(range).update(*state, sample),
            ControllerState::Gradient2(state) => {
                gradient2(range, range.min).update(state, now, sample)
            }
        }
    }
}

impl AdaptiveState {
    /// Creates the state of a key that was never seen.
    pub(crate) fn new(range: &AdaptiveRange) -> AdaptiveState {
        AdaptiveState {
            leases: ConcurrencyState::default(),
            controller: ControllerState::new(range, range.min),
            sampled_at: Time::EPOCH,
        }
    }

    /// Replaces the leases, as when a fixed limit becomes an adaptive one.
    pub(crate) fn with_leases(self, leases: ConcurrencyState) -> AdaptiveState {
        AdaptiveState { leases, ..self }
    }

    /// Returns the state under other bounds or another controller, with its leases and its level.
    pub(crate) fn with_range(&self, from: &AdaptiveRange, to: &AdaptiveRange) -> AdaptiveState {
        AdaptiveState {
            leases: self.leases.clone(),
            controller: ControllerState::new(to, self.controller.limit(from)),
            sampled_at: self.sampled_at,
        }
    }

    /// Returns the concurrency limit at the current level.
    pub(crate) fn concurrency(&self, range: &AdaptiveRange) -> Concurrency {
        let limit = self.controller.limit(range).clamp(range.min, range.max);
        Concurrency::new(limit, range.lease).expect(VALIDATED)
    }

    /// Updates the level by a request that took `rtt` and was just released.
    ///
    /// A request that took no time and was not dropped is no measurement: its client left.
    pub(crate) fn record_sample(
        &mut self,
        range: &AdaptiveRange,
        now: Time,
        rtt: Span,
        dropped: bool,
    ) {
        if rtt.is_zero() && !dropped {
            return;
        }
        let in_flight = self.concurrency(range).in_flight(&self.leases, now) + 1;
        self.controller.update(range, now, Sample { rtt, in_flight, dropped });
        self.sampled_at = now;
    }

    /// Returns the time from which on the state equals an absent one.
    pub(crate) fn full_at(&self, range: &AdaptiveRange) -> Time {
        match self.sampled_at {
            Time::EPOCH => self.concurrency(range).full_at(&self.leases),
            sampled_at => {
                self.concurrency(range).full_at(&self.leases).max(sampled_at + LEVEL_LIFETIME)
            }
        }
    }
}
