//! The Vegas controller (after TCP Vegas): the limit follows the queue, estimated from latency.

use super::permits::Permits;
use super::{Bounds, Controller, Sample};
use crate::{InvalidLimit, Span};

/// A controller that compares latency with the best measured one.
///
/// With a limit `L`, a best latency `b` and a current one of `r`, `⌈L·(1 − b/r)⌉` requests are
/// queueing. If they are few the limit grows, if they are many it shrinks, by steps of
/// `log = max(1, ⌊log₁₀ L⌋)`.
///
/// | sample | limit |
/// | --- | --- |
/// | dropped | − log; its latency is ignored |
/// | a new best latency | unchanged |
/// | less than half the limit in use | unchanged |
/// | queue ≤ log | + 6·log: so fast that no slow start is needed |
/// | queue < 3·log | + log |
/// | queue ≤ 6·log | unchanged |
/// | above | − log |
///
/// The best latency must age, or one lucky sample determines the limit for ever. Upstream replaces it
/// at random moments by the next sample, including its queue. Here, every `30·L` samples, it becomes
/// the best of the *last* `30·L`.
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Controller, Sample, Vegas};
///
/// let vegas = Vegas::new(1, 1000)?.initial(20);
/// let sample = |ms| Sample::ok(Span::from_millis(ms), 20);
/// let state = vegas.update(vegas.start(), sample(10)); // the first best
/// let state = vegas.update(state, sample(10));
/// assert_eq!(state.limit(), 26);
/// assert_eq!(vegas.update(state, sample(50)).limit(), 25);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vegas {
    bounds: Bounds,
    initial: u64,
    alpha: u32,
    beta: u32,
    fixed: bool,
    smoothing_pct: u32,
    probe: u32,
    netflix: bool,
}

/// The state of a [`Vegas`] controller: the limit and the best latency.
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Controller, Vegas};
/// let state = Vegas::new(20, 200)?.start();
/// assert_eq!((state.limit(), state.best_rtt()), (20, None));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VegasState {
    estimate: Permits,
    best: Option<Span>,
    /// The best latency of the samples since the last renewal.
    recent: Span,
    /// The number of those samples.
    age: u64,
}

impl VegasState {
    /// Returns the current limit.
    pub const fn limit(&self) -> u64 {
        self.estimate.floor()
    }

    /// Returns the limit with its fraction, in 10⁻⁹ permits.
    pub const fn estimate_billionths(&self) -> u128 {
        self.estimate.billionths()
    }

    /// Returns the best latency, which stands for the one without load.
    pub const fn best_rtt(&self) -> Option<Span> {
        self.best
    }
}

impl Vegas {
    /// Creates a controller of a limit between `min` and `max`, both included; starts at `min`.
    pub fn new(min: u64, max: u64) -> Result<Vegas, InvalidLimit> {
        Ok(Vegas {
            bounds: Bounds::new(min, max)?,
            initial: min,
            alpha: 3,
            beta: 6,
            fixed: false,
            smoothing_pct: 100,
            probe: 30,
            netflix: false,
        })
    }

    /// Sets the limit to start with, within the bounds; `min` by default.
    pub fn initial(self, limit: u64) -> Vegas {
        Vegas { initial: self.bounds.clamp(limit), ..self }
    }

    /// Sets the queue in logs below which the limit grows and above which it shrinks.
    ///
    /// The defaults are 3 and 6.
    pub fn queue(self, alpha: u32, beta: u32) -> Vegas {
        Vegas { alpha, beta: beta.max(alpha), fixed: false, ..self }
    }

    /// Sets the queue in requests below which the limit grows and above which it shrinks.
    pub fn fixed_queue(self, alpha: u32, beta: u32) -> Vegas {
        Vegas { fixed: true, ..self.queue(alpha, beta) }
    }

    /// Sets the percentage of each step that is taken, 1 to 100; 100 by default.
    pub fn smoothing_pct(self, pct: u32) -> Vegas {
        Vegas { smoothing_pct: pct.clamp(1, 100), ..self }
    }

    /// Renews the best latency every `rounds` times the limit samples; 30 by default, 0 for never.
    pub fn probe_every(self, rounds: u32) -> Vegas {
        Vegas { probe: rounds, ..self }
    }

    /// Behaves exactly as Netflix's original.
    ///
    /// The latency of drops counts, and the limit stays unchanged when a drop is the new best.
    pub fn as_netflix(self) -> Vegas {
        Vegas { netflix: true, ..self }
    }

    /// Updates the best latency, and returns whether `rtt` is the new best.
    fn measure(&self, state: &mut VegasState, rtt: Span) -> bool {
        state.recent = state.recent.min(rtt);
        state.age += 1;
        if self.probe > 0 && state.age >= u64::from(self.probe).saturating_mul(state.limit()) {
            (state.best, state.recent, state.age) = (Some(state.recent), Span::MAX, 0);
        }
        let is_best = state.best.is_none_or(|best| rtt < best);
        if is_best {
            state.best = Some(rtt);
        }
        is_best
    }

    /// Returns the limit that the sample suggests.
    fn target(&self, state: &VegasState, sample: Sample) -> Permits {
        let limit = state.estimate;
        let log = u64::from(limit.floor().checked_ilog10().unwrap_or(0).max(1));
        let (up, down) = (limit.plus(Permits::whole(log)), limit.minus(Permits::whole(log)));
        if sample.dropped {
            return down;
        }
        if !limit.pressed_by(sample) {
            return limit;
        }
        let unit = if self.fixed { 1 } else { log };
        let (alpha, beta) = (u64::from(self.alpha) * unit, u64::from(self.beta) * unit);
        let rtt = sample.rtt.as_nanos();
        let best = state.best.map_or(rtt, Span::as_nanos);
        match limit.ceil_share(rtt.saturating_sub(best), rtt.max(1)) {
            queue if queue <= log => limit.plus(Permits::whole(beta)),
            queue if queue < alpha => up,
            queue if queue > beta => down,
            _ => limit,
        }
    }
}

impl Controller for Vegas {
    type State = VegasState;

    fn start(&self) -> VegasState {
        let estimate = Permits::whole(self.initial);
        VegasState { estimate, best: None, recent: Span::MAX, age: 0 }
    }

    fn update(&self, mut state: VegasState, sample: Sample) -> VegasState {
        let latency_counts = !sample.dropped || self.netflix;
        // A latency of zero means that the clock is too coarse, not that the service is free.
        if latency_counts && self.measure(&mut state, sample.rtt.max(Span::from_nanos(1))) {
            return state;
        }
        let target = self.target(&state, sample).within(self.bounds);
        VegasState { estimate: state.estimate.toward(target, self.smoothing_pct), ..state }
    }

    fn limit(&self, state: &VegasState) -> u64 {
        state.limit()
    }
}

#[cfg(test)]
mod tests;
