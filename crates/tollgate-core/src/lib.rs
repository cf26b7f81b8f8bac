//! The engine of tollgate: rate-limiting algorithms as pure integer functions.
//!
//! Nothing here reads a clock, takes a lock, allocates on the way to a decision, or contains a
//! floating-point number. An [`Algorithm`] holds parameters; its state is a small value; the
//! caller says what time it is. The same inputs give the same verdict on every machine, so a
//! mirror in another language (Lua in Redis) can be checked step by step.
//!
//! Most people want the `tollgate` crate, which adds keys, a store and a clock.
//!
//! ```
//! use tollgate_core::{Algorithm, Meter, Retry, Span, Time};
//!
//! let meter = Meter::new(1, Span::from_millis(100), 2)?;
//! let now = Time::from_nanos(0);
//! let mut state = meter.fresh(now);
//! assert!(meter.decide(&mut state, now, 2).allowed);
//! let denied = meter.decide(&mut state, now, 1);
//! assert_eq!(denied.retry, Retry::After(Span::from_millis(100)));
//! # Ok::<(), tollgate_core::InvalidLimit>(())
//! ```
#![cfg_attr(not(test), no_std)]
extern crate alloc;

pub mod adaptive;
mod algorithm;
mod carry;
mod concurrency;
mod error;
mod exact;
pub mod fair;
mod fixed_window;
mod meter;
mod sliding_log;
mod sliding_slots;
mod sliding_window;
mod time;
mod verdict;
mod warm_up;

pub use algorithm::Algorithm;
pub use carry::Carry;
pub use concurrency::{Concurrency, ConcurrencyState, Lease};
pub use error::InvalidLimit;
pub use fixed_window::{Calendar, FixedWindow, FixedWindowState, Window};
pub use meter::{Meter, MeterParts, MeterState, PlainMeter, Refill};
pub use sliding_log::{SlidingLog, SlidingLogState};
pub use sliding_slots::{SlidingSlots, SlidingSlotsState};
pub use sliding_window::{SlidingWindow, SlidingWindowState};
pub use time::{Span, Time};
pub use verdict::{Retry, Standing, Verdict};
pub use warm_up::{WarmUp, WarmUpParts, WarmUpState};

/// The largest amount, burst or cost: far above any real quota, low enough that no product of
/// an amount and a period overflows 128 bits.
pub const MAX_AMOUNT: u64 = 1 << 62;

/// The longest period, and the longest time a bucket may take to refill: 146 years.
pub const MAX_FILL: Span = Span::from_nanos(1 << 62);

/// The most slots a sliding window may be cut into.
pub const MAX_SLOTS: u32 = 4096;
