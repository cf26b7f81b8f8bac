//! Interleavings of threads, explored by the model checker Shuttle.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p tollgate --test shuttle`. The table then begins with
//! two lines, so that a handful of keys makes it split lines and chain overflow lines.
#![cfg(shuttle)]

mod store;
#[path = "../support/mod.rs"]
mod support;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Arc;
use shuttle::{Config, Runner, thread};

const RUNS: usize = 800;

/// Runs `test` under the default number of schedules, the same ones every time.
fn explore(test: impl Fn() + Send + Sync + Clone + 'static) {
    explore_some(RUNS, test);
}

/// Runs `test` under `runs` random and `runs` prioritized schedules.
fn explore_some(runs: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = Config::new();
        config.stack_size = 1 << 20; // Without optimisation, frames are large.
        config
    };
    Runner::new(RandomScheduler::new_from_seed(7, runs), config()).run(test.clone());
    Runner::new(PctScheduler::new_from_seed(7, 3, runs), config()).run(test);
}

/// Runs `work` on `count` threads and returns the sum of its results.
fn on_threads(count: u64, work: impl Fn(u64) -> u64 + Send + Sync + 'static) -> u64 {
    let work = Arc::new(work);
    let spawn = |n| {
        let work = work.clone();
        thread::spawn(move || work(n))
    };
    let threads: Vec<_> = (0..count).map(spawn).collect();
    threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
}
