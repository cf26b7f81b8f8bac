//! A concurrency limit that finds its own level, one for each key.

use tollgate_core::adaptive::{
    Aimd, AimdState, Controller, Flow, FlowState, Gradient, GradientState, Sample, Vegas,
    VegasState, Windowed, WindowedState,
};
use tollgate_core::{Concurrency, ConcurrencyState, Span, Time};

use crate::limit::{AdaptiveRange, Steering};

/// How long a level is remembered with nobody in flight.
const MEMORY: Span = Span::from_secs(600);

/// Who is in flight, and what was learned from those who were.
#[derive(Clone, Debug)]
pub struct AdaptiveState {
    pub(crate) leases: ConcurrencyState,
    learned: Learned,
    heard_at: Time,
}

/// What the controller of a limit remembers.
#[derive(Clone, Debug)]
enum Learned {
    Flow(FlowState),
    Aimd(AimdState),
    Vegas(VegasState),
    Gradient2(WindowedState<GradientState>),
}

/// A limit's bounds are checked when it is made.
const CHECKED: &str = "a limit's bounds are checked";

fn flow(range: &AdaptiveRange) -> Flow {
    Flow::new(range.min, range.max).expect(CHECKED)
}

/// The published ones are as they were published: told every request by itself.
fn aimd(range: &AdaptiveRange) -> Aimd {
    Aimd::new(range.min, range.max).expect(CHECKED)
}

fn vegas(range: &AdaptiveRange) -> Vegas {
    Vegas::new(range.min, range.max).expect(CHECKED).as_netflix()
}

/// Or once a second.
fn gradient2(range: &AdaptiveRange, begins: u64) -> Windowed<Gradient> {
    let gradient = Gradient::new(range.min, range.max).expect(CHECKED).as_netflix();
    Windowed::new(gradient.initial(begins))
}

impl Learned {
    fn new(range: &AdaptiveRange, begins: u64) -> Learned {
        match range.by {
            Steering::Flow => Learned::Flow(flow(range).initial(begins).start()),
            Steering::Aimd => Learned::Aimd(aimd(range).initial(begins).start()),
            Steering::Vegas => Learned::Vegas(vegas(range).initial(begins).start()),
            Steering::Gradient2 => Learned::Gradient2(gradient2(range, begins).start()),
        }
    }

    fn limit(&self, range: &AdaptiveRange) -> u64 {
        match self {
            Learned::Flow(state) => state.limit(),
            Learned::Aimd(state) => state.limit(),
            Learned::Vegas(state) => state.limit(),
            Learned::Gradient2(state) => gradient2(range, range.min).limit(state),
        }
    }

    fn hear(&mut self, range: &AdaptiveRange, now: Time, sample: Sample) {
        match self {
            Learned::Flow(state) => flow(range).update(state, now, sample),
            Learned::Aimd(state) => *state = aimd(range).update(*state, sample),
            Learned::Vegas(state) => *state = vegas(range).update(*state, sample),
            Learned::Gradient2(state) => gradient2(range, range.min).update(state, now, sample),
        }
    }
}

impl AdaptiveState {
    pub(crate) fn new(range: &AdaptiveRange) -> AdaptiveState {
        AdaptiveState {
            leases: ConcurrencyState::default(),
            learned: Learned::new(range, range.min),
            heard_at: Time::EPOCH,
        }
    }

    /// The same with those in flight taken over.
    pub(crate) fn with(self, leases: ConcurrencyState) -> AdaptiveState {
        AdaptiveState { leases, ..self }
    }

    /// Under other bounds, or another controller: those in flight go on, and so does the level.
    pub(crate) fn moved(&self, from: &AdaptiveRange, to: &AdaptiveRange) -> AdaptiveState {
        AdaptiveState {
            leases: self.leases.clone(),
            learned: Learned::new(to, self.learned.limit(from)),
            heard_at: self.heard_at,
        }
    }

    /// The limit in force.
    pub(crate) fn places(&self, range: &AdaptiveRange) -> Concurrency {
        let limit = self.learned.limit(range).clamp(range.min, range.max);
        Concurrency::new(limit, range.lease).expect(CHECKED)
    }

    /// Learns from a request that took `rtt` and has just been released. One that took no time
    /// and was not dropped says nothing: its client left.
    pub(crate) fn learn(&mut self, range: &AdaptiveRange, now: Time, rtt: Span, dropped: bool) {
        if rtt.is_zero() && !dropped {
            return;
        }
        let in_flight = self.places(range).in_flight(&self.leases, now) + 1;
        self.learned.hear(range, now, Sample { rtt, in_flight, dropped });
        self.heard_at = now;
    }

    /// From when on nothing worth keeping is known.
    pub(crate) fn full_at(&self, range: &AdaptiveRange) -> Time {
        match self.heard_at {
            Time::EPOCH => self.places(range).full_at(&self.leases),
            heard_at => self.places(range).full_at(&self.leases).max(heard_at + MEMORY),
        }
    }
}
