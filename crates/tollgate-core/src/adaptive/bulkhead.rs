//! The failure-rate controller (resilience4j's adaptive bulkhead): double, halve, then creep up.

use super::{Bounds, Controller, Sample};
use crate::{InvalidLimit, Span};

/// The most calls a [`Bulkhead`] looks back on: one bit each in a word.
const MAX_WINDOW: u32 = u64::BITS;

/// Looks at the last calls, and asks what share of them failed or was slow.
///
/// | share | slow start | congestion avoidance |
/// | --- | --- | --- |
/// | below the thresholds | double | one more; at the minimum, back to slow start |
/// | at or above one | halve, and avoid congestion | halve |
///
/// A limit at least half unused never grows. After each judgement the next waits for `every`
/// more calls, by default a whole window: upstream judges the same failures again at every call,
/// so one bad moment takes the limit to its minimum.
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Bulkhead, Controller, Sample};
///
/// let bulkhead = Bulkhead::new(2, 100)?.window(4, 4);
/// let call = |state, _| bulkhead.update(state, Sample::ok(Span::from_millis(1), 50));
/// assert_eq!((0..8).fold(bulkhead.start(), call).limit(), 8);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bulkhead {
    bounds: Bounds,
    initial: u64,
    window: u32,
    min_calls: u32,
    every: u32,
    failure_pct: u32,
    slow_pct: u32,
    slow_call: Span,
    backoff_pct: u32,
}

/// What a [`Bulkhead`] remembers: the limit, and how the last calls went.
///
/// ```
/// use tollgate_core::adaptive::{Bulkhead, Controller};
/// let state = Bulkhead::new(2, 100)?.start();
/// assert!(state.is_slow_start() && state.limit() == 2);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkheadState {
    limit: u64,
    /// One bit a call, the newest lowest.
    failed: u64,
    slow: u64,
    calls: u32,
    /// Calls until the next judgement.
    wait: u32,
    slow_start: bool,
}

impl BulkheadState {
    /// The limit now.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether it doubles; otherwise it avoids congestion.
    pub const fn is_slow_start(&self) -> bool {
        self.slow_start
    }
}

impl Bulkhead {
    /// A limit between `min` and `max`, both included; starts at `min`, in slow start.
    pub fn new(min: u64, max: u64) -> Result<Bulkhead, InvalidLimit> {
        Ok(Bulkhead {
            bounds: Bounds::new(min, max)?,
            initial: min,
            window: MAX_WINDOW,
            min_calls: 20,
            every: MAX_WINDOW,
            failure_pct: 50,
            slow_pct: 50,
            slow_call: Span::from_secs(5),
            backoff_pct: 50,
        })
    }

    /// Start here instead, as far as the bounds allow.
    pub fn initial(self, limit: u64) -> Bulkhead {
        Bulkhead { initial: self.bounds.clamp(limit), ..self }
    }

    /// Look back on `calls`, 1 to 64, once there are `min_calls` of them (64 and 20). Also sets
    /// [`every`](Bulkhead::every) to `calls`.
    pub fn window(self, calls: u32, min_calls: u32) -> Bulkhead {
        let window = calls.clamp(1, MAX_WINDOW);
        Bulkhead { window, every: window, min_calls: min_calls.clamp(1, window), ..self }
    }

    /// Judge every so many calls; 1 is what resilience4j does.
    pub fn every(self, calls: u32) -> Bulkhead {
        Bulkhead { every: calls.max(1), ..self }
    }

    /// Too many failures: this percentage of the calls, 1 to 100 (50).
    pub fn failure_pct(self, pct: u32) -> Bulkhead {
        Bulkhead { failure_pct: pct.clamp(1, 100), ..self }
    }

    /// Too slow: this percentage of the calls, 1 to 100, takes longer than `call` (50, 5 s).
    pub fn slow_pct(self, pct: u32, call: Span) -> Bulkhead {
        Bulkhead { slow_pct: pct.clamp(1, 100), slow_call: call, ..self }
    }

    /// What percentage of the limit is left of it after a bad judgement, 1 to 99 (50).
    pub fn backoff_pct(self, pct: u32) -> Bulkhead {
        Bulkhead { backoff_pct: pct.clamp(1, 99), ..self }
    }

    fn judge(&self, state: BulkheadState, sample: Sample) -> BulkheadState {
        let share_is = |bits: u64, pct: u32| bits.count_ones() * 100 >= state.calls * pct;
        let (limit, slow_start) =
            if share_is(state.failed, self.failure_pct) || share_is(state.slow, self.slow_pct) {
                (self.bounds.back_off(state.limit, self.backoff_pct), false)
            } else if !state.slow_start && state.limit == self.bounds.min {
                (state.limit, true)
            } else if !sample.presses(state.limit) {
                (state.limit, state.slow_start)
            } else if state.slow_start {
                (self.bounds.clamp(state.limit * 2), true)
            } else {
                (self.bounds.clamp(state.limit + 1), false)
            };
        BulkheadState { limit, slow_start, wait: self.every - 1, ..state }
    }
}

impl Controller for Bulkhead {
    type State = BulkheadState;

    fn start(&self) -> BulkheadState {
        let wait = self.min_calls - 1;
        BulkheadState { limit: self.initial, failed: 0, slow: 0, calls: 0, wait, slow_start: true }
    }

    fn update(&self, mut state: BulkheadState, sample: Sample) -> BulkheadState {
        let kept = u64::MAX >> (MAX_WINDOW - self.window);
        let is_slow = sample.rtt > self.slow_call;
        state.failed = (state.failed << 1 | u64::from(sample.dropped)) & kept;
        state.slow = (state.slow << 1 | u64::from(is_slow)) & kept;
        state.calls = (state.calls + 1).min(self.window);
        if state.wait > 0 {
            return BulkheadState { wait: state.wait - 1, ..state };
        }
        self.judge(state, sample)
    }

    fn limit(&self, state: &BulkheadState) -> u64 {
        state.limit
    }
}

#[cfg(test)]
mod tests;
