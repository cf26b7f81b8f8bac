//! Concurrency limits that adapt to a service: pure controllers, `update(state, sample) -> state`.
//!
//! The right number of requests in flight is unknown, and it moves. A [`Controller`] watches the
//! finished requests (how long each took, how many were in flight, whether it was dropped). It raises
//! the limit while the service has capacity and lowers it when the service has none. It holds
//! parameters only; its state is a small value, so a store can keep one per key and a test can replay
//! any history.
//!
//! | controller | relies on | use it when |
//! | --- | --- | --- |
//! | [`Flow`] | throughput, latency without a queue, and drops | always, unless one below fits better: the default |
//! | [`Gradient`] | latency against its unloaded average, and drops | there is no clock to read |
//! | [`Vegas`] | latency against the best measured, and drops | requests are alike, so the best latency means something |
//! | [`Aimd`] | drops and time-outs only | latency says nothing about load |
//!
//! [`WindowedController`] combines many requests into one sample before a controller gets it. The
//! algorithms other than [`Flow`] are those of Netflix concurrency-limits, without their known
//! defects; `as_netflix()` restores the exact original for comparison.
//!
//! All arithmetic is in integers: a fraction of a permit is counted in 10⁻¹², so the same samples
//! give the same limit on every machine.
//!
//! ```
//! use tollgate_core::Span;
//! use tollgate_core::adaptive::{Controller, Gradient, Sample};
//!
//! let gradient = Gradient::new(20, 500)?;
//! let mut state = gradient.start();
//! for _ in 0..100 {
//!     let in_flight = gradient.limit(&state);
//!     state = gradient.update(state, Sample::ok(Span::from_millis(10), in_flight));
//! }
//! assert_eq!(state.limit(), 120); // busy, and latency steady: one more a sample
//! state = gradient.update(state, Sample::dropped(Span::ZERO, 120));
//! assert_eq!(state.limit(), 108);
//! # Ok::<(), tollgate_core::InvalidLimit>(())
//! ```

mod aimd;
mod baseline;
mod flow;
mod gradient;
mod permits;
mod vegas;
mod windowed;

pub use aimd::{Aimd, AimdState};
pub use flow::{Flow, FlowState};
pub use gradient::{Gradient, GradientState};
pub use vegas::{Vegas, VegasState};
pub use windowed::{WindowedController, WindowedControllerState};

use crate::{InvalidLimit, MAX_AMOUNT, Span};

/// The measurements of one finished request.
///
/// ```
/// use tollgate_core::{Span, adaptive::Sample};
/// let sample = Sample::ok(Span::from_millis(12), 40);
/// assert!(!sample.dropped);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The time the request took.
    pub rtt: Span,
    /// The number of requests in flight when it began, itself included.
    pub in_flight: u64,
    /// Whether the protected service dropped it: timed out, refused or reset it.
    pub dropped: bool,
}

impl Sample {
    /// Creates the sample of a request that was answered.
    pub const fn ok(rtt: Span, in_flight: u64) -> Sample {
        Sample { rtt, in_flight, dropped: false }
    }

    /// Creates the sample of a request that was dropped.
    pub const fn dropped(rtt: Span, in_flight: u64) -> Sample {
        Sample { rtt, in_flight, dropped: true }
    }

    /// Returns whether at least half of `limit` was in use.
    ///
    /// If not, the sample says nothing about a higher limit, so the limit must not grow on it.
    const fn presses(&self, limit: u64) -> bool {
        self.in_flight.saturating_mul(2) >= limit
    }
}

/// An algorithm that adapts a concurrency limit; `self` holds the parameters, the caller the state.
///
/// ```
/// use tollgate_core::Span;
/// use tollgate_core::adaptive::{Controller, Sample};
///
/// /// Ten, or one after a drop.
/// struct Timid;
/// impl Controller for Timid {
///     type State = u64;
///     fn start(&self) -> u64 { 10 }
///     fn update(&self, _: u64, sample: Sample) -> u64 { if sample.dropped { 1 } else { 10 } }
///     fn limit(&self, state: &u64) -> u64 { *state }
/// }
/// assert_eq!(Timid.update(Timid.start(), Sample::dropped(Span::ZERO, 3)), 1);
/// ```
pub trait Controller {
    /// The state of the controller for one limit.
    type State: Copy;

    /// Returns the state before the first sample.
    fn start(&self) -> Self::State;

    /// Returns the state after `sample`.
    fn update(&self, state: Self::State, sample: Sample) -> Self::State;

    /// Returns the limit of `state`.
    fn limit(&self, state: &Self::State) -> u64;

    /// Returns the state after one sample that stands for `requests` of them.
    ///
    /// A [`WindowedController`] makes such samples. Only a controller whose steps depend on the amount
    /// of traffic overrides this method.
    fn digest(&self, state: Self::State, sample: Sample, requests: u64) -> Self::State {
        let _ = requests;
        self.update(state, sample)
    }
}

/// The range of an adaptive limit: at least 1, at most [`MAX_AMOUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    min: u64,
    max: u64,
}

impl Bounds {
    fn new(min: u64, max: u64) -> Result<Bounds, InvalidLimit> {
        if min == 0 || min > max {
            Err(InvalidLimit::Bounds { min, max })
        } else if max > MAX_AMOUNT {
            Err(InvalidLimit::AmountTooLarge(max))
        } else {
            Ok(Bounds { min, max })
        }
    }

    fn clamp(self, limit: u64) -> u64 {
        limit.clamp(self.min, self.max)
    }

    /// Returns `pct` percent of `limit`, rounded down, within the bounds.
    fn back_off(self, limit: u64, pct: u32) -> u64 {
        let less = u128::from(limit) * u128::from(pct) / 100;
        self.clamp(u64::try_from(less).unwrap_or(u64::MAX))
    }
}
