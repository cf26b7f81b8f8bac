//! Test support: a clock that is moved by hand, and the conformance suite of stores.

mod manual_clock;

pub mod conformance;

pub use manual_clock::ManualClock;
