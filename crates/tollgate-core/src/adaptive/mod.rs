//! Concurrency limits that find their own level: pure controllers, `update(state, sample) -> state`.
//!
//! Nobody knows the right number of requests in flight, and it moves. A [`Controller`] watches
//! what finished requests say (how long, how many beside it, dropped or not) and raises the limit
//! while there is room, lowers it when there is none. It holds parameters only; its state is a
//! small value, so a store can keep one per key and a test can replay any history.
//!
//! | controller | trusts | use it when |
//! | --- | --- | --- |
//! | [`Flow`] | what flows, latency without a queue, and drops | you need not think about it: the default |
//! | [`Gradient`] | latency against its unloaded average, and drops | there is no clock to tell |
//! | [`Vegas`] | latency against the best seen, and drops | requests are alike, so the best latency means something |
//! | [`Aimd`] | drops and time-outs only | latency says nothing about load |
//! | [`Bulkhead`] | the share of failed and slow calls | failures, not latency, are the symptom |
//!
//! [`Windowed`] sums up many requests into one sample before a controller sees them; [`Partitions`]
//! divides whatever limit results among kinds of traffic. The algorithms are those of Netflix
//! concurrency-limits and resilience4j, without their known defects; `as_netflix()` brings the
//! exact original back for those who compare.
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
mod any;
mod baseline;
mod bulkhead;
mod flow;
mod gradient;
mod partition;
mod permits;
mod vegas;
mod window;

pub use aimd::{Aimd, AimdState};
pub use any::{AnyController, AnyControllerState};
pub use bulkhead::{Bulkhead, BulkheadState};
pub use flow::{Flow, FlowState};
pub use gradient::{Gradient, GradientState};
pub use partition::{Occupancy, Partitions};
pub use vegas::{Vegas, VegasState};
pub use window::{Windowed, WindowedState};

use crate::{InvalidLimit, MAX_AMOUNT, Span};

/// What one finished request tells a controller.
///
/// ```
/// use tollgate_core::{Span, adaptive::Sample};
/// let sample = Sample::ok(Span::from_millis(12), 40);
/// assert!(!sample.dropped);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How long the request took.
    pub rtt: Span,
    /// How many were in flight when it began, itself included.
    pub in_flight: u64,
    /// Whether it was dropped: timed out, refused or reset by what the limit protects.
    pub dropped: bool,
}

impl Sample {
    /// A request that was answered.
    pub const fn ok(rtt: Span, in_flight: u64) -> Sample {
        Sample { rtt, in_flight, dropped: false }
    }

    /// A request that was dropped.
    pub const fn dropped(rtt: Span, in_flight: u64) -> Sample {
        Sample { rtt, in_flight, dropped: true }
    }

    /// Whether at least half of `limit` was in use. If not, the sample says nothing about a
    /// higher limit, and growing on it would be growing blindly.
    const fn presses(&self, limit: u64) -> bool {
        self.in_flight.saturating_mul(2) >= limit
    }
}

/// An adaptive limit: parameters here, a small state with the caller.
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
    /// What a controller remembers.
    type State: Copy;

    /// The state before the first sample.
    fn start(&self) -> Self::State;

    /// The state after `sample`.
    fn update(&self, state: Self::State, sample: Sample) -> Self::State;

    /// The limit this state stands for.
    fn limit(&self, state: &Self::State) -> u64;

    /// The state after one sample that sums up `requests` of them, as a [`Windowed`] makes. Only
    /// a controller whose steps depend on how much traffic it saw needs its own.
    fn digest(&self, state: Self::State, sample: Sample, requests: u64) -> Self::State {
        let _ = requests;
        self.update(state, sample)
    }
}

/// Where a limit may move: at least 1, at most [`MAX_AMOUNT`].
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

    /// `pct` percent of `limit`, rounded down, within the bounds.
    fn back_off(self, limit: u64, pct: u32) -> u64 {
        let less = u128::from(limit) * u128::from(pct) / 100;
        self.clamp(u64::try_from(less).unwrap_or(u64::MAX))
    }
}
