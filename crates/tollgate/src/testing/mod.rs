//! What tests need: a clock that moves when told, and the conformance suite every store runs.

mod manual_clock;

pub mod conformance;

pub use manual_clock::ManualClock;
