//! A concurrency limit that finds its own level, one for each key.

use tollgate_core::adaptive::{Gradient, GradientState, Sample, Windowed, WindowedState};
use tollgate_core::{Concurrency, ConcurrencyState, Span, Time};

use crate::limit::AdaptiveRange;

/// How long a level is remembered with nobody in flight.
const MEMORY: Span = Span::from_secs(600);

/// Who is in flight, and what was learned from those who were.
#[derive(Clone, Debug)]
pub struct AdaptiveState {
    pub(crate) leases: ConcurrencyState,
    learned: WindowedState<GradientState>,
    heard_at: Time,
}

fn controller(range: &AdaptiveRange) -> Windowed<Gradient> {
    Windowed::new(Gradient::new(range.min, range.max).expect("a limit's bounds are checked"))
}

impl AdaptiveState {
    pub(crate) fn new(range: &AdaptiveRange) -> AdaptiveState {
        AdaptiveState {
            leases: ConcurrencyState::default(),
            learned: controller(range).start(),
            heard_at: Time::EPOCH,
        }
    }

    /// The same with those in flight taken over.
    pub(crate) fn with(self, leases: ConcurrencyState) -> AdaptiveState {
        AdaptiveState { leases, ..self }
    }

    /// The limit in force.
    pub(crate) fn places(&self, range: &AdaptiveRange) -> Concurrency {
        let limit = controller(range).limit(&self.learned).clamp(range.min, range.max);
        Concurrency::new(limit, range.lease).expect("a limit's bounds are checked")
    }

    /// Learns from a request that took `rtt` and has just been released.
    pub(crate) fn learn(&mut self, range: &AdaptiveRange, now: Time, rtt: Span, dropped: bool) {
        let in_flight = self.places(range).in_flight(&self.leases, now) + 1;
        controller(range).update(&mut self.learned, now, Sample { rtt, in_flight, dropped });
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
