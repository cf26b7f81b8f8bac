//! Rate-limiting algorithms as pure integer functions.
//!
//! Most users want the `tollgate` crate, which adds keys, a store and a clock. Use this crate alone to
//! build something of your own: a store in another system, a simulator, a test that replays a history.
//!
//! # Parameters, state, time
//!
//! An [`Algorithm`] holds the parameters of a limit. The state of one key is a small value that the
//! caller keeps, and the caller passes the time with every call. Nothing here reads a clock, takes a
//! lock, performs I/O, or allocates on the way to a decision, except where an exact log needs memory.
//! No decision contains a floating-point number. Equal inputs therefore give equal verdicts on every
//! machine, and an implementation in another language, such as Lua inside Redis, can be compared with
//! this one step by step.
//!
//! ```
//! use tollgate_core::{Algorithm, Meter, Retry, Span, Time};
//!
//! let meter = Meter::new(1, Span::from_millis(100), 2)?; // 10 a second, 2 at once
//! let now = Time::from_nanos(0);
//! let mut state = meter.fresh(now);
//! assert!(meter.decide(&mut state, now, 2).allowed);
//!
//! let denied = meter.decide(&mut state, now, 1);
//! assert_eq!(denied.retry, Retry::After(Span::from_millis(100)));
//! assert!(meter.decide(&mut state, now + Span::from_millis(100), 1).allowed);
//! # Ok::<(), tollgate_core::InvalidLimit>(())
//! ```
//!
//! # Two functions
//!
//! An algorithm consists of two functions. [`charge`](Algorithm::charge) spends a cost
//! unconditionally; [`judge`](Algorithm::judge) compares a state with the limit. Every operation is
//! built from them: a decision charges a copy and keeps it if it conforms; a reservation accepts a
//! state that will conform soon enough; a refund charges a negative cost; a settlement charges the
//! difference between estimate and fact. A separate check and update would leave a gap between the
//! two, and every backend would have to repeat the check.
//!
//! A refusal is exact: a denied request passes after [`Retry::After`], and fails one nanosecond
//! earlier. Rates are fractions, not rounded intervals, so 3 a second stays 3 a second for years.
//!
//! # Which algorithm
//!
//! | type | what it limits | state |
//! | --- | --- | --- |
//! | [`Meter`] | a rate with bursts: token bucket, leaky bucket, GCRA | one time |
//! | [`FixedWindow`] | an amount per window or calendar period | a count and an end |
//! | [`SlidingWindow`] | an amount in any interval, estimated | two counts |
//! | [`SlidingSlots`] | an amount in any interval, with a known error | a count per slot |
//! | [`SlidingLog`] | an amount in any interval, exactly | an entry per spend |
//! | [`WarmUp`] | a rate that is slow after idle time | two times |
//! | [`Concurrency`] | requests in flight | a lease per request |
//!
//! [`Concurrency`] is not an [`Algorithm`], because permits come back when a request ends and not with
//! time. The controllers in [`adaptive`] move its limit to what a service can bear. [`fair`] divides
//! any limit among tenants.
#![cfg_attr(not(test), no_std)]
extern crate alloc;

pub mod adaptive;
mod algorithm;
mod carry;
mod concurrency;
mod error;
mod exact_nanos;
pub mod fair;
mod fixed_window;
mod meter;
mod rewind;
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
pub use rewind::Rewind;
pub use sliding_log::{SlidingLog, SlidingLogState};
pub use sliding_slots::{SlidingSlots, SlidingSlotsState};
pub use sliding_window::{SlidingWindow, SlidingWindowState};
pub use time::{Span, Time};
pub use verdict::{Judgement, Retry, Verdict};
pub use warm_up::{WarmUp, WarmUpParts, WarmUpState};

/// The largest amount, burst or cost.
///
/// The value is far above any real limit, and low enough that no product of an amount and a period
/// overflows 128 bits.
pub const MAX_AMOUNT: u64 = 1 << 62;

/// The longest period, and the longest time to refill from empty: 146 years.
pub const MAX_FILL: Span = Span::from_nanos(1 << 62);

/// The most slots of a sliding window.
pub const MAX_SLOTS: u32 = 4096;

/// The examples of the README, run as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
