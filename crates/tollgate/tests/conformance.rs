//! The conformance suite of stores, run on the memory store.

mod support;

use std::time::Duration;

use support::block_on;
use tollgate::testing::{ManualClock, conformance};
use tollgate::{MemoryStore, Time};

/// A memory store on a manual clock.
struct MemoryHarness(ManualClock);

impl conformance::Harness for MemoryHarness {
    type Store = MemoryStore;

    async fn store(&self) -> MemoryStore {
        MemoryStore::new().clock(&self.0)
    }

    async fn now(&self) -> Time {
        self.0.now()
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

#[test]
fn the_memory_store_conforms() {
    let failed: Vec<&str> = conformance::cases()
        .iter()
        .copied()
        .filter(|case| {
            let run = || block_on(conformance::run_case(&MemoryHarness(ManualClock::new()), case));
            std::panic::catch_unwind(run).is_err()
        })
        .collect();
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

#[test]
fn the_memory_store_agrees_with_the_model() {
    for seed in 0..40 {
        block_on(conformance::random_steps(&MemoryHarness(ManualClock::new()), seed, 400));
    }
}
