//! Many requests, one sample: noise is averaged away before a controller sees it.

use alloc::vec::Vec;

use super::{Controller, Sample};
use crate::{Span, Time};

/// The most latencies a window sorts for a percentile.
const MAX_KEPT: usize = 1 << 16;

/// Feeds a [`Controller`] once a period with what the period's requests had in common: their
/// average (or percentile) latency, the most in flight, and whether any was dropped.
///
/// Requests faster than `min_rtt` are ignored (they never reached what is measured), and a period
/// with fewer than `min_samples` is too. A drop is never ignored: upstream loses those that are
/// refused at once or fall in a quiet period, which is how an overloaded service drops.
///
/// ```
/// use tollgate_core::adaptive::{Aimd, Controller, Sample, Windowed};
/// use tollgate_core::{Span, Time};
///
/// let window = Windowed::new(Aimd::new(20, 200)?);
/// let mut state = window.start();
/// for i in 0..300 { // 3 s at 100 a second
///     let now = Time::from_nanos(i * 10_000_000);
///     window.update(&mut state, now, Sample::ok(Span::from_millis(5), 20));
/// }
/// assert_eq!(window.limit(&state), 22); // one step a second
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windowed<C> {
    controller: C,
    min_rtt: Span,
    min_samples: u64,
    shortest: Span,
    longest: Span,
    /// Percentile and capacity; the average if none.
    percentile: Option<(usize, usize)>,
}

/// What a [`Windowed`] remembers: its controller's state and the period under way. Not `Copy`: a
/// percentile keeps the latencies, in room that is reserved once.
///
/// ```
/// use tollgate_core::adaptive::{Vegas, Windowed, WindowedState, VegasState};
/// let state: WindowedState<VegasState> = Windowed::new(Vegas::new(1, 9)?).percentile(90, 50).start();
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowedState<S> {
    inner: S,
    ends: Time,
    seen: Seen,
    kept: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    count: u64,
    sum: u128,
    least: Span,
    in_flight: u64,
    dropped: bool,
}

impl Seen {
    const NOTHING: Seen = Seen { count: 0, sum: 0, least: Span::MAX, in_flight: 0, dropped: false };
}

impl<C: Controller> Windowed<C> {
    /// Averages over a second, of at least 10 requests that took at least 100 µs.
    pub fn new(controller: C) -> Windowed<C> {
        let (min_rtt, second) = (Span::from_micros(100), Span::from_secs(1));
        let (shortest, longest) = (second, second);
        Windowed { controller, min_rtt, min_samples: 10, shortest, longest, percentile: None }
    }

    /// Ignore requests faster than this.
    pub fn min_rtt(self, min_rtt: Span) -> Windowed<C> {
        Windowed { min_rtt, ..self }
    }

    /// Ignore periods with fewer requests than this, at least 1.
    pub fn min_samples(self, samples: u32) -> Windowed<C> {
        Windowed { min_samples: u64::from(samples.max(1)), ..self }
    }

    /// A period lasts twice the least latency of the one before, within these two.
    pub fn period(self, shortest: Span, longest: Span) -> Windowed<C> {
        Windowed { shortest, longest: longest.max(shortest), ..self }
    }

    /// Track this percentile, 1 to 100, of the first `capacity` (at most 65,536) requests of a
    /// period, instead of the average.
    pub fn percentile(self, pct: u32, capacity: usize) -> Windowed<C> {
        Windowed {
            percentile: Some((pct.clamp(1, 100) as usize, capacity.clamp(1, MAX_KEPT))),
            ..self
        }
    }

    /// The state before the first request.
    pub fn start(&self) -> WindowedState<C::State> {
        let kept = Vec::with_capacity(self.percentile.map_or(0, |(_, capacity)| capacity));
        WindowedState {
            inner: self.controller.start(),
            ends: Time::EPOCH,
            seen: Seen::NOTHING,
            kept,
        }
    }

    /// Takes in a request that finished `now`.
    pub fn update(&self, state: &mut WindowedState<C::State>, now: Time, sample: Sample) {
        if sample.rtt < self.min_rtt && !sample.dropped {
            return;
        }
        let seen = &mut state.seen;
        seen.dropped |= sample.dropped;
        seen.in_flight = seen.in_flight.max(sample.in_flight);
        if sample.rtt >= self.min_rtt {
            seen.count += 1;
            seen.sum += u128::from(sample.rtt.as_nanos());
            seen.least = seen.least.min(sample.rtt);
            if self.percentile.is_some_and(|(_, capacity)| state.kept.len() < capacity) {
                state.kept.push(sample.rtt.as_nanos());
            }
        }
        if now > state.ends {
            self.close(state, now);
        }
    }

    /// The controller's limit.
    pub fn limit(&self, state: &WindowedState<C::State>) -> u64 {
        self.controller.limit(&state.inner)
    }

    fn close(&self, state: &mut WindowedState<C::State>, now: Time) {
        let seen = core::mem::replace(&mut state.seen, Seen::NOTHING);
        if seen.count >= self.min_samples || seen.dropped {
            let rtt = Span::from_nanos(self.tracked(&seen, &mut state.kept));
            let sample = Sample { rtt, in_flight: seen.in_flight, dropped: seen.dropped };
            state.inner = self.controller.digest(state.inner, sample, seen.count);
        }
        state.kept.clear();
        state.ends = now + seen.least.times(2).clamp(self.shortest, self.longest);
    }

    /// The latency that stands for all; zero if all that was seen is drops.
    fn tracked(&self, seen: &Seen, kept: &mut [u64]) -> u64 {
        let Some((pct, _)) = self.percentile else {
            return (seen.sum / u128::from(seen.count.max(1))) as u64;
        };
        kept.sort_unstable();
        let rank = (kept.len() * pct + 50) / 100; // to the nearest, as upstream
        kept.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
