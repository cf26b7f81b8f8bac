//! Panics in every worker: the doors keep working, readiness reports it, and nothing hangs at the end.

mod databases;
mod deferred;
mod doors;
mod harness;
mod shared_store;

use super::BackgroundWorker;

/// A worker without a test here would be a promise without a proof.
#[test]
fn every_worker_has_a_test() {
    let sources = [
        include_str!("databases.rs"),
        include_str!("deferred.rs"),
        include_str!("doors.rs"),
        include_str!("shared_store.rs"),
    ];
    for worker in BackgroundWorker::ALL {
        let injected = format!("BackgroundWorker::{worker:?}, ");
        assert!(sources.iter().any(|source| source.contains(&injected)), "{worker:?}");
    }
}

#[test]
fn the_workers_are_numbered_in_order_and_have_names_of_their_own() {
    for (number, worker) in BackgroundWorker::ALL.into_iter().enumerate() {
        assert_eq!(worker as usize, number, "{worker:?}");
        let same = BackgroundWorker::ALL.iter().filter(|other| other.as_str() == worker.as_str());
        assert_eq!(same.count(), 1, "{worker:?}");
    }
}
