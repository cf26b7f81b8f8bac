//! Workers of a server whose counters are in Redis.

use std::time::Duration;

use tollgate_rig::Redis;

use super::harness::start_with;
use crate::background::{BackgroundWorker, inject_panics};
use crate::config::{RedisOptions, StoreChoice};

#[test]
fn the_workers_of_a_shared_store_start_again_after_a_panic() {
    let redis = Redis::start();
    for (worker, times) in [
        (BackgroundWorker::StoreHealth, 2),
        (BackgroundWorker::KeySecret, 2),
        (BackgroundWorker::DeferredShare, 2),
    ] {
        inject_panics(worker, times);
    }
    let server = start_with(|config| {
        let options = redis.url().parse::<RedisOptions>().unwrap();
        config.store = StoreChoice::Redis(options.timeout(Duration::from_secs(10)).unwrap());
    });
    server.expect_panics(BackgroundWorker::StoreHealth, 2);
    server.expect_panics(BackgroundWorker::KeySecret, 2);
    server.expect_panics(BackgroundWorker::DeferredShare, 2);
    server.stop();
}
