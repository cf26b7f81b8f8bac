//! Limits as a whole: what texts mean, how they print, what is said about those that are none.

mod errors;
mod fill;
mod grammar;
mod meaning;
mod roundtrip;
mod share;
