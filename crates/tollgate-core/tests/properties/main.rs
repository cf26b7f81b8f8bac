//! Laws that hold for any limit, any traffic and any clock.
//!
//! `laws` states them once for every algorithm; `meter` and `windows` draw limits and histories
//! for them; `model` holds the meter against a token bucket on big rational numbers.

mod laws;
mod meter;
mod model;
mod windows;

use proptest::test_runner::Config;

/// Enough cases to bite, few enough to run on every build.
pub(crate) fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
