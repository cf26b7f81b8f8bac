//! The store of the counters: the memory of this process, or a shared Redis.

mod health;
mod health_log;

use std::sync::Arc;

use futures_util::future::join_all;
use tollgate::{
    Action, Check, Clock, MemoryStore, SharedText, SharedTexts, Span, Store, StoreCall, StoreError,
};
use tollgate::{Verdict, Verdicts};
use tollgate_redis::RedisStore;
use tollgate_rules::RuleLimiter;

pub(crate) use health::FailureModes;
pub(crate) use health_log::log_health_changes;

use crate::config::{Config, StoreChoice};
use crate::server::StartError;
use crate::snapshot::{self, SavedServer};
use crate::telemetry::Telemetry;

/// The limiter of a server, over any store.
pub(crate) type AnyLimiter = RuleLimiter<AnyStore>;

/// The store of a server.
#[expect(clippy::large_enum_variant, reason = "there is one, and memory is read in place")]
#[derive(Debug)]
pub(crate) enum AnyStore {
    /// The memory of this process, which decides without waiting.
    Memory(MemoryStore),
    /// Redis or Valkey.
    Redis(Box<SharedStore>),
}

/// A Redis store that several servers share. Telemetry records its durations and errors.
#[derive(Debug)]
pub(crate) struct SharedStore {
    store: RedisStore,
    /// The addresses of the store, without passwords.
    address: String,
    clock: Clock,
    telemetry: Arc<Telemetry>,
}

/// A store that was opened, with what a snapshot has of it.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) store: AnyStore,
    /// The clock of decisions, which goes on from the time of the snapshot.
    pub(crate) clock: Clock,
    pub(crate) saved: SavedServer,
    /// The time up to which the store has the charges of a former process, since 1970.
    pub(crate) counted_until_ms: i64,
}

impl AnyStore {
    /// Opens the configured store.
    ///
    /// An unreachable store is not an error: the rules define what happens until it is reachable.
    pub(crate) async fn open(
        config: &Config,
        clock: Clock,
        telemetry: &Arc<Telemetry>,
    ) -> Result<OpenedStore, StartError> {
        match &config.store {
            StoreChoice::Memory => {
                let config = config.clone();
                let open = move || snapshot::open_store(&config, &clock);
                let opened = tokio::task::spawn_blocking(open).await;
                Ok(opened.expect("reading a snapshot does not panic"))
            }
            StoreChoice::Redis(options) => {
                let address = options.to_string();
                let store = RedisStore::connect(options.clone()).await;
                let store = store.map_err(|error| StartError::Store(error.to_string()))?;
                let shared = SharedStore {
                    store,
                    address,
                    clock: clock.clone(),
                    telemetry: telemetry.clone(),
                };
                let store = AnyStore::Redis(Box::new(shared));
                let (saved, counted_until_ms) = (SavedServer::default(), i64::MAX);
                Ok(OpenedStore { store, clock, saved, counted_until_ms })
            }
        }
    }

    /// Returns unspent leases to the store and reports the spent amounts.
    pub(crate) async fn flush(&self) {
        if let AnyStore::Redis(shared) = self {
            shared.store.flush().await;
        }
    }

    /// Returns the memory store, if the counters are in this process.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&MemoryStore> {
        match self {
            AnyStore::Memory(store) => Some(store),
            AnyStore::Redis(_) => None,
        }
    }
}

impl Store for AnyStore {
    async fn run(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        match self {
            AnyStore::Memory(store) => store.run(call).await,
            // The future is boxed so that it does not enlarge the futures of the memory store.
            AnyStore::Redis(shared) => Box::pin(shared.timed(shared.store.run(call))).await,
        }
    }

    async fn run_while(
        &self,
        call: StoreCall<'_>,
        current: impl Fn() -> bool + Send,
    ) -> Result<Option<Verdicts>, StoreError> {
        match self {
            AnyStore::Memory(store) => store.run_while(call, current).await,
            AnyStore::Redis(shared) => {
                Box::pin(shared.timed(shared.store.run_while(call, current))).await
            }
        }
    }

    async fn share_text(&self, text: SharedText<'_>) -> Result<Option<SharedTexts>, StoreError> {
        match self {
            AnyStore::Memory(store) => store.share_text(text).await,
            AnyStore::Redis(shared) => Box::pin(shared.timed(shared.store.share_text(text))).await,
        }
    }

    fn nodes(&self) -> u64 {
        match self {
            AnyStore::Memory(store) => store.nodes(),
            AnyStore::Redis(shared) => shared.store.nodes(),
        }
    }

    fn is_shared(&self) -> bool {
        self.memory().is_none()
    }
}

impl SharedStore {
    /// Returns the Redis client, for functions other than counters.
    pub(crate) fn client(&self) -> &tollgate_redis::RedisClient {
        self.store.client()
    }

    /// Decides independent checks concurrently and returns the verdicts in order.
    pub(crate) async fn decide_each(
        &self,
        checks: &[Check<'_>],
    ) -> Vec<Result<Verdict, StoreError>> {
        let action = Action::Take { max_wait: Span::ZERO };
        let decide = async |check| {
            let call = StoreCall { action, checks: std::slice::from_ref(check) };
            self.timed(self.store.run(call)).await.map(|verdicts| verdicts[0])
        };
        join_all(checks.iter().map(decide)).await
    }

    async fn timed<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let before = self.clock.now();
        let result = call.await;
        self.telemetry.record_store_duration(1, self.clock.now().since(before));
        result.inspect_err(|error| self.telemetry.record_store_error(error))
    }
}
