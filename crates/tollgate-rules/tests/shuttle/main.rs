//! Explores thread interleavings with a model checker.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p tollgate-rules --test shuttle`.
#![cfg(shuttle)]

mod queue;
#[path = "../support/mod.rs"]
mod support;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// Runs `test` under `runs` schedules, chosen by a fixed seed.
fn explore_some(runs: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 20; // Without optimisation, frames are large.
        config
    };
    Runner::new(RandomScheduler::new_from_seed(7, runs), config()).run(test.clone());
    Runner::new(PctScheduler::new_from_seed(7, 3, runs), config()).run(test);
}
