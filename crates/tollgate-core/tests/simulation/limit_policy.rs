//! The policies that set the limit: a controller, or an oracle that knows the future.

use tollgate_core::Time;
use tollgate_core::adaptive::{
    Aimd, AimdState, Controller, Flow, FlowState, Gradient, GradientState, Sample, Vegas,
    VegasState, WindowedController, WindowedControllerState,
};

use super::scenario::Conditions;

/// The bounds of every controller; ours starts at the lower one.
const BOUNDS: (u64, u64) = (2, 400);
/// The limit at which the published controllers start.
const INITIAL: u64 = 20;

/// A policy that sets the limit.
#[derive(Clone, Debug)]
pub(crate) enum LimitPolicy {
    Ours(Flow, FlowState),
    Aimd(Aimd, AimdState),
    Vegas(Vegas, VegasState),
    Gradient2(WindowedController<Gradient>, WindowedControllerState<GradientState>),
    /// The limit that keeps the service exactly busy, times this.
    Oracle(f64),
}

impl LimitPolicy {
    pub(crate) fn ours() -> LimitPolicy {
        let flow = Flow::new(BOUNDS.0, BOUNDS.1).unwrap();
        LimitPolicy::Ours(flow, flow.start())
    }

    /// Returns our controller and the published ones.
    pub(crate) fn all() -> [LimitPolicy; 4] {
        [LimitPolicy::ours(), LimitPolicy::aimd(), LimitPolicy::vegas(), LimitPolicy::gradient2()]
    }

    /// Returns the default of Netflix: a step for every request.
    fn aimd() -> LimitPolicy {
        let aimd = Aimd::new(BOUNDS.0, BOUNDS.1).unwrap().initial(INITIAL);
        LimitPolicy::Aimd(aimd, aimd.start())
    }

    /// Returns the default of Netflix: a step for every request.
    fn vegas() -> LimitPolicy {
        let vegas = Vegas::new(BOUNDS.0, BOUNDS.1).unwrap().initial(INITIAL).as_netflix();
        LimitPolicy::Vegas(vegas, vegas.start())
    }

    /// Returns the default of Netflix: averaged over a second.
    fn gradient2() -> LimitPolicy {
        let gradient = Gradient::new(BOUNDS.0, BOUNDS.1).unwrap().initial(INITIAL).as_netflix();
        let gradient = WindowedController::new(gradient);
        LimitPolicy::Gradient2(gradient, gradient.start())
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            LimitPolicy::Ours(..) => "ours",
            LimitPolicy::Aimd(..) => "AIMD",
            LimitPolicy::Vegas(..) => "Vegas",
            LimitPolicy::Gradient2(..) => "Gradient2",
            LimitPolicy::Oracle(_) => "oracle",
        }
    }

    pub(crate) fn limit(&self, conditions: &Conditions) -> u64 {
        match self {
            LimitPolicy::Ours(_, state) => state.limit(),
            LimitPolicy::Aimd(_, state) => state.limit(),
            LimitPolicy::Vegas(_, state) => state.limit(),
            LimitPolicy::Gradient2(controller, state) => controller.limit(state),
            LimitPolicy::Oracle(times) => {
                (conditions.optimal_limit() * times).ceil().max(1.0) as u64
            }
        }
    }

    pub(crate) fn record(&mut self, now: Time, sample: Sample) {
        match self {
            LimitPolicy::Ours(controller, state) => controller.update(state, now, sample),
            LimitPolicy::Aimd(controller, state) => *state = controller.update(*state, sample),
            LimitPolicy::Vegas(controller, state) => *state = controller.update(*state, sample),
            LimitPolicy::Gradient2(controller, state) => controller.update(state, now, sample),
            LimitPolicy::Oracle(_) => {}
        }
    }
}
