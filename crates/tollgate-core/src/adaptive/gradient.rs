//! The gradient controller (Netflix Gradient2): latency now against latency without load.

use super::baseline::{Baseline, femtos};
use super::permits::{ONE, Permits};
use super::{Bounds, Controller, Sample};
use crate::InvalidLimit;

/// Slow samples in a row at the minimum limit before the baseline is taken for outdated: enough
/// for what queued under a higher limit to be gone.
const PATIENCE: u32 = 10;

/// Grows while the limit makes no queue, holds while latency is within tolerance, and shrinks in
/// proportion once it is not.
///
/// With a limit `L` and an unloaded latency `b`, a latency of `r` means that about `L·(1 − b/r)`
/// of the requests in flight are queueing. Up to `queue_size` of them is welcome: it keeps the
/// far side busy.
///
/// | sample | limit |
/// | --- | --- |
/// | dropped | 90 % of it; its latency is not believed |
/// | less than half the limit in use | unchanged |
/// | queue ≤ `queue_size`, slow start | one more per request: doubles each round |
/// | queue ≤ `queue_size` | a fifth of `queue_size` more |
/// | latency ≤ 1.5 × unloaded | unchanged |
/// | above | a fifth of the way to `L · 1.5·b/r`, and at most a tenth less |
///
/// Upstream ignores drops, and adds `queue_size` whatever the latency, to a baseline that learns
/// from its own queue: the limit creeps up for as long as there is load. Here the baseline may
/// learn downwards at any time, but upwards only from samples the limit did not cause: less than
/// half of it in use, or the limit at its minimum. If even there ten in a row are too slow, the
/// service has changed and the baseline starts afresh: one slower for good, beyond tolerance, costs
/// a dip to the minimum, never a runaway.
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

/// What a [`Gradient`] remembers: the limit with its fraction, and the unloaded latency.
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
    stuck: u32,
}

impl GradientState {
    /// The limit now.
    pub const fn limit(&self) -> u64 {
        self.estimate.floor()
    }

    /// The limit with its fraction, in 10⁻⁹ permits.
    pub const fn estimate_billionths(&self) -> u128 {
        self.estimate.billionths()
    }

    /// Latency without load as far as known, in picoseconds; zero before the first sample.
    pub const fn baseline_picos(&self) -> u128 {
        self.baseline.femtos() / 1_000
    }
}

impl Gradient {
    /// A limit between `min` and `max`, both included; starts at `min`, in slow start.
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

    /// Start here instead, as far as the bounds allow.
    pub fn initial(self, limit: u64) -> Gradient {
        Gradient { initial: self.bounds.clamp(limit), ..self }
    }

    /// How many requests may queue before growth stops (4).
    pub fn queue_size(self, requests: u64) -> Gradient {
        Gradient { queue_size: requests, ..self }
    }

    /// How much of the way to its new value the limit goes at each sample, 1 to 100 (20).
    pub fn smoothing_pct(self, pct: u32) -> Gradient {
        Gradient { smoothing_pct: pct.clamp(1, 100), ..self }
    }

    /// How much of the unloaded latency is still fine, 100 to 1000 (150).
    pub fn tolerance_pct(self, pct: u32) -> Gradient {
        Gradient { tolerance_pct: pct.clamp(100, 1000), ..self }
    }

    /// What percentage of the limit a drop leaves, 1 to 99 (90).
    pub fn backoff_pct(self, pct: u32) -> Gradient {
        Gradient { backoff_pct: pct.clamp(1, 99), ..self }
    }

    /// How many samples the unloaded latency is averaged over (600).
    pub fn long_window(self, samples: u32) -> Gradient {
        Gradient { long_window: samples.clamp(1, 1 << 20), ..self }
    }

    /// Whether to double per round until the first queue or drop.
    pub fn slow_start(self, on: bool) -> Gradient {
        Gradient { slow_start: on, ..self }
    }

    /// Gradient2 exactly as Netflix has it: deaf to drops, creeping, no slow start.
    pub fn as_netflix(self) -> Gradient {
        Gradient { netflix: true, slow_start: false, ..self }
    }

    fn move_to(&self, state: GradientState, target: Permits) -> GradientState {
        let estimate = state.estimate.toward(target, self.smoothing_pct).within(self.bounds);
        GradientState { estimate, ..state }
    }

    /// `limit · clamp(tolerance · baseline / rtt, ½, 1)`.
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

    /// Takes `rtt` into the baseline if the limit cannot have caused it.
    fn learn(&self, state: &mut GradientState, rtt: u128, busy: bool) {
        let known = state.baseline;
        let within = known.over(rtt, self.tolerance_pct) == ONE;
        let at_floor = state.limit() == self.bounds.min;
        state.stuck = if busy && at_floor && !within { state.stuck + 1 } else { 0 };
        if state.stuck >= PATIENCE {
            (state.baseline, state.stuck) = (Baseline::default(), 0);
        }
        let first = state.baseline == Baseline::default();
        let falling = rtt <= known.femtos();
        if first || falling || !busy || within && (at_floor || !known.is_warm()) {
            state.baseline = state.baseline.with(rtt, self.long_window);
        }
    }
}

impl Controller for Gradient {
    type State = GradientState;

    fn start(&self) -> GradientState {
        let estimate = Permits::whole(self.initial);
        let (baseline, slow_start) = (Baseline::default(), self.slow_start);
        GradientState { estimate, baseline, slow_start, stuck: 0 }
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
            // In whole permits: a drop must be felt even by a limit of 2.
            let less = self.bounds.back_off(state.limit(), self.backoff_pct);
            return GradientState { estimate: Permits::whole(less), slow_start: false, ..state };
        }
        self.learn(&mut state, rtt, busy);
        if busy {
            let queue = state.estimate.times(ONE - state.baseline.over(rtt, 100));
            let within = state.baseline.over(rtt, self.tolerance_pct) == ONE;
            let room = within && queue <= Permits::whole(self.queue_size);
            state.slow_start &= room;
            state = if state.slow_start {
                let more = Permits::whole(requests.min(state.limit()));
                GradientState { estimate: state.estimate.plus(more).within(self.bounds), ..state }
            } else if room {
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
