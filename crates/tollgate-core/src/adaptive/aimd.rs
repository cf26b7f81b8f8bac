//! Additive increase, multiplicative decrease: plus one for a success, minus a tenth for a drop.

use super::{Bounds, Controller, Sample};
use crate::{InvalidLimit, Span};

/// A controller that relies on drops alone.
///
/// A request that is dropped, or slower than the time-out, takes the limit to 90 %. Any other request
/// adds one, provided at least half the limit was in use.
///
/// One up *per request* already doubles the limit per round, so this controller needs no slow
/// start. Every drop counts by itself: where drops come in bursts, wrap the controller in a
/// [`WindowedController`](super::WindowedController).
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Aimd, Controller, Sample};
///
/// let aimd = Aimd::new(10, 200)?.initial(100).timeout(Span::from_millis(500));
/// let state = aimd.update(aimd.start(), Sample::ok(Span::from_millis(501), 80));
/// assert_eq!(state.limit(), 90);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimd {
    bounds: Bounds,
    initial: u64,
    backoff_pct: u32,
    timeout: Span,
}

/// The state of an [`Aimd`] controller: its limit.
///
/// ```
/// use tollgate_core::adaptive::{Aimd, Controller};
/// assert_eq!(Aimd::new(20, 200)?.start().limit(), 20);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AimdState {
    limit: u64,
}

impl AimdState {
    /// Returns the current limit.
    pub const fn limit(&self) -> u64 {
        self.limit
    }
}

impl Aimd {
    /// Creates a controller of a limit between `min` and `max`, both included.
    ///
    /// The limit starts at `min`; a drop backs off to 90 %, and anything slower than 5 s counts as
    /// a drop.
    pub fn new(min: u64, max: u64) -> Result<Aimd, InvalidLimit> {
        let bounds = Bounds::new(min, max)?;
        Ok(Aimd { bounds, initial: min, backoff_pct: 90, timeout: Span::from_secs(5) })
    }

    /// Sets the limit to start with, within the bounds; `min` by default.
    pub fn initial(self, limit: u64) -> Aimd {
        Aimd { initial: self.bounds.clamp(limit), ..self }
    }

    /// Sets the percentage of the limit that remains after a drop, 1 to 99; 90 by default.
    pub fn backoff_pct(self, pct: u32) -> Aimd {
        Aimd { backoff_pct: pct.clamp(1, 99), ..self }
    }

    /// Sets the latency above which a request counts as dropped; 5 s by default.
    pub fn timeout(self, timeout: Span) -> Aimd {
        Aimd { timeout, ..self }
    }
}

impl Controller for Aimd {
    type State = AimdState;

    fn start(&self) -> AimdState {
        AimdState { limit: self.initial }
    }

    fn update(&self, state: AimdState, sample: Sample) -> AimdState {
        let limit = if sample.dropped || sample.rtt > self.timeout {
            self.bounds.back_off(state.limit, self.backoff_pct)
        } else if sample.presses(state.limit) {
            self.bounds.clamp(state.limit + 1)
        } else {
            state.limit
        };
        AimdState { limit }
    }

    fn limit(&self, state: &AimdState) -> u64 {
        state.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_only_when_half_the_limit_is_in_use() {
        let aimd = Aimd::new(1, 200).unwrap().initial(21);
        let after = |n| aimd.update(aimd.start(), Sample::ok(Span::from_millis(1), n)).limit();
        assert_eq!((after(10), after(11)), (21, 22));
    }

    #[test]
    fn every_drop_lowers_even_a_tiny_limit() {
        let aimd = Aimd::new(1, 9).unwrap().initial(9).backoff_pct(99);
        let mut state = aimd.start();
        for expected in [8, 7, 6, 5, 4, 3, 2, 1, 1] {
            state = aimd.update(state, Sample::dropped(Span::ZERO, 0));
            assert_eq!(state.limit(), expected);
        }
    }

    #[test]
    fn bounds_are_checked_once() {
        assert_eq!(Aimd::new(0, 5), Err(InvalidLimit::Bounds { min: 0, max: 5 }));
        assert_eq!(Aimd::new(6, 5), Err(InvalidLimit::Bounds { min: 6, max: 5 }));
        assert_eq!(Aimd::new(1, u64::MAX), Err(InvalidLimit::AmountTooLarge(u64::MAX)));
        assert_eq!(Aimd::new(5, 9).unwrap().initial(50).start().limit(), 9);
    }
}
