//! The conformance suite of the engine, on real servers.

use std::time::Duration;

use tollgate::testing::{ManualClock, conformance};
use tollgate::{Span, Time};
use tollgate_redis::{Options, RedisStore};

struct Redis {
    url: String,
    clock: ManualClock,
    stores: std::cell::Cell<u32>,
}

impl conformance::Harness for Redis {
    type Store = RedisStore;

    async fn store(&self) -> RedisStore {
        self.stores.set(self.stores.get() + 1);
        let options: Options = self.url.parse().unwrap();
        let options = options.prefix(&format!("test{}", self.stores.get())).unwrap();
        let options = options.timeout(Duration::from_secs(10)).unwrap();
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

#[tokio::test]
async fn suite() {
    let url = std::env::var("TOLLGATE_TEST_REDIS").unwrap();
    let harness = Redis { url, clock: ManualClock::new(), stores: Default::default() };
    for case in conformance::cases() {
        eprintln!("{case}");
        conformance::run_case(&harness, case).await;
    }
}

#[tokio::test]
async fn random() {
    let url = std::env::var("TOLLGATE_TEST_REDIS").unwrap();
    let harness = Redis { url, clock: ManualClock::new(), stores: std::cell::Cell::new(1000) };
    let steps = std::env::var("STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(5000);
    conformance::random_steps(&harness, 1, steps).await;
}
