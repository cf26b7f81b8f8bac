//! The conformance suite on real servers: Redis and Valkey, with functions and without, alone and
//! as a cluster.

use std::cell::Cell;
use std::time::Duration;

use tollgate::testing::{ManualClock, conformance};
use tollgate::{Span, Time};
use tollgate_redis::{Options, RedisStore};
use tollgate_rig::{Cluster, Flavour, Redis};

/// A server whose counters use a manual clock.
struct Harness {
    url: String,
    clock: ManualClock,
    stores: Cell<u32>,
}

impl Harness {
    fn new(url: String) -> Harness {
        Harness { url, clock: ManualClock::new(), stores: Cell::new(0) }
    }
}

impl conformance::Harness for Harness {
    type Store = RedisStore;

    /// Returns an empty store, under a prefix of its own.
    async fn store(&self) -> RedisStore {
        self.stores.set(self.stores.get() + 1);
        let options: Options = self.url.parse().unwrap();
        let options = options.prefix(&format!("store{}", self.stores.get())).unwrap();
        let options = options.timeout(Duration::from_secs(20)).unwrap();
        RedisStore::connect_at(options, &self.clock).await.unwrap()
    }

    async fn now(&self) -> Time {
        self.clock.now()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn resolution(&self) -> Span {
        Span::from_micros(1)
    }
}

async fn conforms(url: String) {
    let harness = Harness::new(url);
    conformance::run(&harness).await;
}

#[tokio::test]
async fn redis_7_conforms() {
    conforms(Redis::start_flavour(Flavour::Redis7).url()).await;
}

#[tokio::test]
async fn redis_6_conforms_without_functions() {
    conforms(Redis::start_flavour(Flavour::Redis62).url()).await;
}

#[tokio::test]
async fn valkey_9_conforms() {
    conforms(Redis::start_flavour(Flavour::Valkey).url()).await;
}

#[tokio::test]
async fn a_cluster_conforms() {
    let cluster = Cluster::start(3, 0);
    let addresses: Vec<String> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    conforms(format!("redis+cluster://{}", addresses.join(","))).await;
}

/// Every kind of limit, several at a time, all actions, numbers that Lua cannot represent.
#[tokio::test]
async fn random_requests_match_the_model() {
    let redis = Redis::start();
    conformance::random_steps(&Harness::new(redis.url()), 11, 10_000).await;
}
