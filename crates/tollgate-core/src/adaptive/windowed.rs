//! Combines many requests into one sample, so that a controller gets less noise.

use alloc::vec::Vec;

use super::{Controller, Sample};
use crate::{Span, Time};

/// The most latencies a window sorts for a percentile.
const MAX_LATENCIES: usize = 1 << 16;

/// A wrapper that gives its [`Controller`] one sample per period.
///
/// The sample has the average (or a percentile) of the latencies, the most in flight, and whether any
/// request was dropped. Requests faster than `min_rtt` are ignored, because they never reached the
/// protected service, and so are periods with fewer than `min_samples`. A drop is never ignored:
/// upstream loses drops that come at once or in a quiet period, which is how an overloaded service
/// drops.
///
/// ```
/// use tollgate_core::adaptive::{Aimd, Controller, Sample, WindowedController};
/// use tollgate_core::{Span, Time};
///
/// let window = WindowedController::new(Aimd::new(20, 200)?);
/// let mut state = window.start();
/// for i in 0..300 { // 3 s at 100 a second
///     let now = Time::from_nanos(i * 10_000_000);
///     window.update(&mut state, now, Sample::ok(Span::from_millis(5), 20));
/// }
/// assert_eq!(window.limit(&state), 22); // one step a second
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedController<C> {
    controller: C,
    min_rtt: Span,
    min_samples: u64,
    shortest: Span,
    longest: Span,
    /// The percentile and the most latencies it sorts; `None` for the average.
    percentile: Option<(usize, usize)>,
}

/// The state of a [`WindowedController`]: its controller's state and the current period.
///
/// The state is not `Copy`: a percentile needs the latencies, in a buffer that is allocated once.
///
/// ```
/// use tollgate_core::adaptive::{Vegas, WindowedController, WindowedControllerState, VegasState};
/// let state: WindowedControllerState<VegasState> = WindowedController::new(Vegas::new(1, 9)?).percentile(90, 50).start();
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowedControllerState<S> {
    controller_state: S,
    period_end: Time,
    stats: PeriodStats,
    latencies: Vec<u64>,
}

/// A summary of the requests of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PeriodStats {
    count: u64,
    sum: u128,
    least: Span,
    in_flight: u64,
    dropped: bool,
}

impl PeriodStats {
    const EMPTY: PeriodStats =
        PeriodStats { count: 0, sum: 0, least: Span::MAX, in_flight: 0, dropped: false };
}

impl<C: Controller> WindowedController<C> {
    /// Wraps a controller: a second per period, at least 10 requests of at least 100 µs.
    pub fn new(controller: C) -> WindowedController<C> {
        let (min_rtt, second) = (Span::from_micros(100), Span::from_secs(1));
        let (shortest, longest) = (second, second);
        WindowedController {
            controller,
            min_rtt,
            min_samples: 10,
            shortest,
            longest,
            percentile: None,
        }
    }

    /// Sets the latency below which requests are ignored; 100 µs by default.
    pub fn min_rtt(self, min_rtt: Span) -> WindowedController<C> {
        WindowedController { min_rtt, ..self }
    }

    /// Sets the number of requests below which a period is ignored, at least 1; 10 by default.
    pub fn min_samples(self, samples: u32) -> WindowedController<C> {
        WindowedController { min_samples: u64::from(samples.max(1)), ..self }
    }

    /// Sets the range of the period, which lasts twice the least latency of the one before.
    pub fn period(self, shortest: Span, longest: Span) -> WindowedController<C> {
        WindowedController { shortest, longest: longest.max(shortest), ..self }
    }

    /// Uses a percentile, 1 to 100, instead of the average.
    ///
    /// The percentile covers the first `capacity` (at most 65,536) requests of a period.
    pub fn percentile(self, pct: u32, capacity: usize) -> WindowedController<C> {
        WindowedController {
            percentile: Some((pct.clamp(1, 100) as usize, capacity.clamp(1, MAX_LATENCIES))),
            ..self
        }
    }

    /// Returns the state before the first request.
    pub fn start(&self) -> WindowedControllerState<C::State> {
        let latencies = Vec::with_capacity(self.percentile.map_or(0, |(_, capacity)| capacity));
        WindowedControllerState {
            controller_state: self.controller.start(),
            period_end: Time::EPOCH,
            stats: PeriodStats::EMPTY,
            latencies,
        }
    }

    /// Takes in a request that finished at `now`.
    pub fn update(&self, state: &mut WindowedControllerState<C::State>, now: Time, sample: Sample) {
        if sample.rtt < self.min_rtt && !sample.dropped {
            return;
        }
        let stats = &mut state.stats;
        stats.dropped |= sample.dropped;
        stats.in_flight = stats.in_flight.max(sample.in_flight);
        if sample.rtt >= self.min_rtt {
            stats.count += 1;
            stats.sum += u128::from(sample.rtt.as_nanos());
            stats.least = stats.least.min(sample.rtt);
            if self.percentile.is_some_and(|(_, capacity)| state.latencies.len() < capacity) {
                state.latencies.push(sample.rtt.as_nanos());
            }
        }
        if now > state.period_end {
            self.close_period(state, now);
        }
    }

    /// Returns the controller's limit.
    pub fn limit(&self, state: &WindowedControllerState<C::State>) -> u64 {
        self.controller.limit(&state.controller_state)
    }

    fn close_period(&self, state: &mut WindowedControllerState<C::State>, now: Time) {
        let stats = core::mem::replace(&mut state.stats, PeriodStats::EMPTY);
        if stats.count >= self.min_samples || stats.dropped {
            let rtt = Span::from_nanos(self.representative_latency(&stats, &mut state.latencies));
            let sample = Sample { rtt, in_flight: stats.in_flight, dropped: stats.dropped };
            state.controller_state =
                self.controller.digest(state.controller_state, sample, stats.count);
        }
        state.latencies.clear();
        state.period_end = now + stats.least.times(2).clamp(self.shortest, self.longest);
    }

    /// Returns the average or percentile latency; zero if there were only drops.
    fn representative_latency(&self, stats: &PeriodStats, latencies: &mut [u64]) -> u64 {
        let Some((pct, _)) = self.percentile else {
            return (stats.sum / u128::from(stats.count.max(1))) as u64;
        };
        latencies.sort_unstable();
        let rank = (latencies.len() * pct + 50) / 100; // to the nearest, as upstream
        latencies.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
