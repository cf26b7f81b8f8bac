//! Tests of whole limits: the meaning of texts, their canonical spelling, and errors.

mod compile;
mod errors;
mod fill_time;
mod grammar;
mod roundtrip;
mod share;
