//! Who chooses the limit: a controller, or somebody who knows the future.

use tollgate_core::Time;
use tollgate_core::adaptive::{
    Aimd, AimdState, Controller, Flow, FlowState, Gradient, GradientState, Sample, Vegas,
    VegasState, Windowed, WindowedState,
};

use super::world::World;

/// The bounds every controller has, ours beginning at the lower one.
const BOUNDS: (u64, u64) = (2, 400);
/// Where the published ones begin.
const INITIAL: u64 = 20;

/// Who chooses the limit.
#[derive(Clone, Debug)]
pub(crate) enum Steering {
    Ours(Flow, FlowState),
    Aimd(Aimd, AimdState),
    Vegas(Vegas, VegasState),
    Gradient2(Windowed<Gradient>, WindowedState<GradientState>),
    /// What keeps the service exactly busy, times this.
    Clairvoyant(f64),
}

impl Steering {
    pub(crate) fn ours() -> Steering {
        let flow = Flow::new(BOUNDS.0, BOUNDS.1).unwrap();
        Steering::Ours(flow, flow.start())
    }

    /// Ours, and the others.
    pub(crate) fn all() -> [Steering; 4] {
        [Steering::ours(), Steering::aimd(), Steering::vegas(), Steering::gradient2()]
    }

    /// As Netflix has it by default: every request by itself.
    fn aimd() -> Steering {
        let aimd = Aimd::new(BOUNDS.0, BOUNDS.1).unwrap().initial(INITIAL);
        Steering::Aimd(aimd, aimd.start())
    }

    /// As Netflix has it by default: every request by itself.
    fn vegas() -> Steering {
        let vegas = Vegas::new(BOUNDS.0, BOUNDS.1).unwrap().initial(INITIAL).as_netflix();
        Steering::Vegas(vegas, vegas.start())
    }

    /// As Netflix has it by default: averaged over a second.
    fn gradient2() -> Steering {
        let gradient = Gradient::new(BOUNDS.0, BOUNDS.1).unwrap().initial(INITIAL).as_netflix();
        let gradient = Windowed::new(gradient);
        Steering::Gradient2(gradient, gradient.start())
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Steering::Ours(..) => "ours",
            Steering::Aimd(..) => "AIMD",
            Steering::Vegas(..) => "Vegas",
            Steering::Gradient2(..) => "Gradient2",
            Steering::Clairvoyant(_) => "clairvoyant",
        }
    }

    pub(crate) fn limit(&self, world: &World) -> u64 {
        match self {
            Steering::Ours(_, state) => state.limit(),
            Steering::Aimd(_, state) => state.limit(),
            Steering::Vegas(_, state) => state.limit(),
            Steering::Gradient2(it, state) => it.limit(state),
            Steering::Clairvoyant(times) => (world.fill() * times).ceil().max(1.0) as u64,
        }
    }

    pub(crate) fn hear(&mut self, now: Time, sample: Sample) {
        match self {
            Steering::Ours(it, state) => it.update(state, now, sample),
            Steering::Aimd(it, state) => *state = it.update(*state, sample),
            Steering::Vegas(it, state) => *state = it.update(*state, sample),
            Steering::Gradient2(it, state) => it.update(state, now, sample),
            Steering::Clairvoyant(_) => {}
        }
    }
}
