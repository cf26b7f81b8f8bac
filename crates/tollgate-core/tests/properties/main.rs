//! Laws that hold for any limit, any traffic and any clock.
//!
//! `laws` states them once for every algorithm; `meter` and `windows` generate limits and histories;
//! `model` compares the meter with a token bucket on big rational numbers.

mod laws;
mod meter;
mod model;
mod windows;

use proptest::test_runner::Config;

/// Sets the number of cases: enough to find faults, few enough for every build.
pub(crate) fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}
