//! The gradient controller (Netflix Gradient2): current latency against latency without load.

use super::baseline::{Baseline, femtos};
use super::permits::{ONE, Permits};
use super::{Bounds, Controller, Sample};
use crate::InvalidLimit;

/// Slow samples in a row at the minimum limit after which the baseline counts as outdated.
///
/// They are enough for the queue of a higher limit to be gone.
const MAX_SLOW_SAMPLES: u32 = 10;

/// A controller that compares latency with its average without load.
///
/// The limit grows while it makes no queue, stays while latency is within tolerance, and shrinks in
/// proportion once it is not.
///
/// With a limit `L` and an unloaded latency `b`, a latency of `r` means that about `L·(1 − b/r)`
/// of the requests in flight are queueing. A queue of up to `queue_size` is welcome: it keeps the
/// service busy.
///
/// | sample | limit |
/// | --- | --- |
/// | dropped | 90 % of it; its latency is ignored |
/// | less than half the limit in use | unchanged |
/// | queue ≤ `queue_size`, slow start | one more per request: doubles each round |
/// | queue ≤ `queue_size` | a fifth of `queue_size` more |
/// | latency ≤ 1.5 × unloaded | unchanged |
/// | above | a fifth of the way to `L · 1.5·b/r`, and at most a tenth less |
///
/// Upstream ignores drops, and adds `queue_size` whatever the latency, to a baseline that learns
/// from its own queue: the limit creeps up for as long as there is load. Here the baseline may
/// learn downwards at any time, but upwards only from samples that the limit did not cause: less than
/// half of it in use, or the limit at its minimum. If even there ten in a row are too slow, the
/// service has changed and the baseline starts afresh. A service that is permanently slower, beyond
/// tolerance, costs a dip to the minimum, never a runaway.
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Controller, Gradient, Sample};
///
/// let gradient = Gradient::new(20, 200)?.initial(100);
/// let calm = Sample::ok(Span::from_millis(10), 100);
/// let slow = Sample::ok(Span::from_millis(30), 100);
/// let state = gradient.update(gradient.start(), calm);
/// assert_eq!(state.limit(), 101);
/// assert_eq!(gradient.update(state, slow).limit(), 90);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gradient {
    bounds: Bounds,
    initial: u64,
    queue_size: u64,
    smoothing_pct: u32,
    tolerance_pct: u32,
    backoff_pct: u32,
    long_window: u32,
    slow_start: bool,
    netflix: bool,
}

/// The state of a [`Gradient`] controller: the limit with its fraction, and the unloaded latency.
///
/// ```
/// use tollgate_core::adaptive::{Controller, Gradient};
/// let state = Gradient::new(20, 200)?.start();
/// assert_eq!((state.limit(), state.estimate_billionths()), (20, 20_000_000_000));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GradientState {
    estimate: Permits,
    baseline: Baseline,
    slow_start: bool,
    /// Samples in a row that were too slow although the limit is at its minimum.
    slow_at_min: u32,
}

impl GradientState {
    /// Returns the current limit.
    pub const fn limit(&self) -> u64 {
        self.estimate.floor()
    }

    /// Returns the limit with its fraction, in 10⁻⁹ permits.
    pub const fn estimate_billionths(&self) -> u128 {
        self.estimate.billionths()
    }

    /// Returns the latency without load in picoseconds; zero before the first sample.
    pub const fn baseline_picos(&self) -> u128 {
        self.baseline.femtos() / 1_000
    }
}

impl Gradient {
    /// Creates a controller of a limit between `min` and `max`, both included.
    ///
    /// The limit starts at `min`, in slow start.
    pub fn new(min: u64, max: u64) -> Result<Gradient, InvalidLimit> {
        Ok(Gradient {
            bounds: Bounds::new(min, max)?,
            initial: min,
            queue_size: 4,
            smoothing_pct: 20,
            tolerance_pct: 150,
            backoff_pct: 90,
            long_window: 600,
            slow_start: true,
            netflix: false,
        })
    }

    /// Sets the limit to start with, within the bounds; `min` by default.
    pub fn initial(self, limit: u64) -> Gradient {
        Gradient { initial: self.bounds.clamp(limit), ..self }
    }

    /// Sets the number of queued requests at which growth stops; 4 by default.
    pub fn queue_size(self, requests: u64) -> Gradient {
        Gradient { queue_size: requests, ..self }
    }

    /// Sets the percentage of the way to its new value that the limit goes at each sample, 1 to 100.
    ///
    /// The default is 20.
    pub fn smoothing_pct(self, pct: u32) -> Gradient {
        Gradient { smoothing_pct: pct.clamp(1, 100), ..self }
    }

    /// Sets the tolerated latency in percent of the unloaded one, 100 to 1000; 150 by default.
    pub fn tolerance_pct(self, pct: u32) -> Gradient {
        Gradient { tolerance_pct: pct.clamp(100, 1000), ..self }
    }

    /// Sets the percentage of the limit that remains after a drop, 1 to 99; 90 by default.
    pub fn backoff_pct(self, pct: u32) -> Gradient {
        Gradient { backoff_pct: pct.clamp(1, 99), ..self }
    }

    /// Sets the number of samples over which the unloaded latency is averaged; 600 by default.
    pub fn long_window(self, samples: u32) -> Gradient {
        Gradient { long_window: samples.clamp(1, 1 << 20), ..self }
    }

    /// Sets whether the limit doubles per round until the first queue or drop; it does by default.
    pub fn slow_start(self, on: bool) -> Gradient {
        Gradient { slow_start: on, ..self }
    }

    /// Behaves exactly as Netflix's Gradient2: ignores drops, creeps up, has no slow start.
    pub fn as_netflix(self) -> Gradient {
        Gradient { netflix: true, slow_start: false, ..self }
    }

    fn move_to(&self, state: GradientState, target: Permits) -> GradientState {
        let estimate = state.estimate.toward(target, self.smoothing_pct).within(self.bounds);
        GradientState { estimate, ..state }
    }

    /// Returns `limit · clamp(tolerance · baseline / rtt, ½, 1)`.
    fn shrunk(&self, state: GradientState, rtt: u128) -> Permits {
        state.estimate.times(state.baseline.over(rtt, self.tolerance_pct).max(ONE / 2))
    }

    fn upstream(&self, mut state: GradientState, rtt: u128, busy: bool) -> GradientState {
        state.baseline = state.baseline.with(rtt, self.long_window);
        if busy {
            let target = self.shrunk(state, rtt).plus(Permits::whole(self.queue_size));
            state = self.move_to(state, target);
        }
        GradientState { baseline: state.baseline.relaxed(rtt), ..state }
    }

    /// Adds `rtt` to the baseline if the limit cannot have caused it.
    fn learn(&self, state: &mut GradientState, rtt: u128, busy: bool) {
        let previous = state.baseline;
        let within = previous.over(rtt, self.tolerance_pct) == ONE;
        let at_floor = state.limit() == self.bounds.min;
        state.slow_at_min = if busy && at_floor && !within { state.slow_at_min + 1 } else { 0 };
        if state.slow_at_min >= MAX_SLOW_SAMPLES {
            (state.baseline, state.slow_at_min) = (Baseline::default(), 0);
        }
        let first = state.baseline == Baseline::default();
        let falling = rtt <= previous.femtos();
        if first || falling || !busy || within && (at_floor || !previous.is_warm()) {
            state.baseline = state.baseline.with(rtt, self.long_window);
        }
    }
}

impl Controller for Gradient {
    type State = GradientState;

    fn start(&self) -> GradientState {
        let estimate = Permits::whole(self.initial);
        let (baseline, slow_start) = (Baseline::default(), self.slow_start);
        GradientState { estimate, baseline, slow_start, slow_at_min: 0 }
    }

    fn update(&self, state: GradientState, sample: Sample) -> GradientState {
        self.digest(state, sample, 1)
    }

    fn digest(&self, mut state: GradientState, sample: Sample, requests: u64) -> GradientState {
        let rtt = femtos(sample.rtt);
        let busy = state.estimate.pressed_by(sample);
        if self.netflix {
            return self.upstream(state, rtt, busy);
        }
        if sample.dropped {
            // In whole permits, so that a drop lowers even a limit of 2.
            let less = self.bounds.back_off(state.limit(), self.backoff_pct);
            return GradientState { estimate: Permits::whole(less), slow_start: false, ..state };
        }
        self.learn(&mut state, rtt, busy);
        if busy {
            let queue = state.estimate.times(ONE - state.baseline.over(rtt, 100));
            let within = state.baseline.over(rtt, self.tolerance_pct) == ONE;
            let can_grow = within && queue <= Permits::whole(self.queue_size);
            state.slow_start &= can_grow;
            state = if state.slow_start {
                let more = Permits::whole(requests.min(state.limit()));
                GradientState { estimate: state.estimate.plus(more).within(self.bounds), ..state }
            } else if can_grow {
                self.move_to(state, state.estimate.plus(Permits::whole(self.queue_size)))
            } else {
                self.move_to(state, self.shrunk(state, rtt))
            };
        }
        GradientState { baseline: state.baseline.relaxed(rtt), ..state }
    }

    fn limit(&self, state: &GradientState) -> u64 {
        state.limit()
    }
}

#[cfg(test)]
mod tests;
