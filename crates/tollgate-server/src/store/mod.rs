//! Where counters are kept: in this process, or in a Redis that many servers share.

mod health;
mod watch;

use std::sync::Arc;

use futures_util::future::join_all;
use tollgate::rules::RuleLimiter;
use tollgate::{Action, Call, Check, Clock, MemoryStore, Note, Notes, Span, Store, StoreError};
use tollgate::{Verdict, Verdicts};
use tollgate_redis::RedisStore;

pub(crate) use health::Modes;
pub(crate) use watch::watch;

use crate::config::{Config, StoreChoice};
use crate::server::StartError;
use crate::telemetry::Telemetry;

/// The limiter of a server.
pub(crate) type AnyLimiter = RuleLimiter<AnyStore>;

/// Where counters are kept.
#[expect(clippy::large_enum_variant, reason = "there is one, and memory is read in place")]
#[derive(Debug)]
pub(crate) enum AnyStore {
    /// In this process: decides without waiting.
    Memory(MemoryStore),
    /// In Redis or Valkey.
    Redis(Box<Shared>),
}

/// A store that others share. Every call is timed, and counted if it fails.
#[derive(Debug)]
pub(crate) struct Shared {
    store: RedisStore,
    /// Where it is, without passwords.
    at: String,
    clock: Clock,
    telemetry: Arc<Telemetry>,
}

impl AnyStore {
    /// The store that was chosen. One that cannot be reached is no error: the rules say what happens
    /// until it can.
    pub(crate) async fn open(
        config: &Config,
        clock: &Clock,
        telemetry: &Arc<Telemetry>,
    ) -> Result<AnyStore, StartError> {
        match &config.store {
            StoreChoice::Memory => {
                let mut store = MemoryStore::new().clock(clock.clone());
                if let Some(max_keys) = config.max_keys {
                    store = store.max_keys(max_keys);
                }
                Ok(AnyStore::Memory(store))
            }
            StoreChoice::Redis(options) => {
                let at = options.to_string();
                let store = RedisStore::connect(options.clone()).await;
                let store = store.map_err(|error| StartError::Store(error.to_string()))?;
                let (clock, telemetry) = (clock.clone(), telemetry.clone());
                Ok(AnyStore::Redis(Box::new(Shared { store, at, clock, telemetry })))
            }
        }
    }

    /// Hands back what this server holds of shared limits, and tells what it spent of them.
    pub(crate) async fn flush(&self) {
        if let AnyStore::Redis(shared) = self {
            shared.store.flush().await;
        }
    }

    /// The store, if it is in this process.
    #[inline]
    pub(crate) fn memory(&self) -> Option<&MemoryStore> {
        match self {
            AnyStore::Memory(store) => Some(store),
            AnyStore::Redis(_) => None,
        }
    }
}

impl Store for AnyStore {
    async fn run(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        match self {
            AnyStore::Memory(store) => store.run(call).await,
            // In a box: what waits for an answer must not weigh on who need not wait.
            AnyStore::Redis(shared) => Box::pin(shared.timed(shared.store.run(call))).await,
        }
    }

    async fn run_while(
        &self,
        call: Call<'_>,
        current: impl Fn() -> bool + Send,
    ) -> Result<Option<Verdicts>, StoreError> {
        match self {
            AnyStore::Memory(store) => store.run_while(call, current).await,
            AnyStore::Redis(shared) => {
                Box::pin(shared.timed(shared.store.run_while(call, current))).await
            }
        }
    }

    async fn note(&self, note: Note<'_>) -> Result<Option<Notes>, StoreError> {
        match self {
            AnyStore::Memory(store) => store.note(note).await,
            AnyStore::Redis(shared) => Box::pin(shared.timed(shared.store.note(note))).await,
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

impl Shared {
    /// Where the gateway keeps the deferred requests of a domain.
    pub(crate) fn desk(&self, domain: &str) -> tollgate_redis::Desk {
        self.store.desk(domain)
    }

    /// Decides independent requests at the same time; answers in order.
    pub(crate) async fn decide_each(
        &self,
        checks: &[Check<'_>],
    ) -> Vec<Result<Verdict, StoreError>> {
        let action = Action::Take { max_wait: Span::ZERO };
        let decide = async |check| {
            let call = Call { action, checks: std::slice::from_ref(check) };
            self.timed(self.store.run(call)).await.map(|verdicts| verdicts[0])
        };
        join_all(checks.iter().map(decide)).await
    }

    async fn timed<T>(
        &self,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let before = self.clock.now();
        let answer = answer.await;
        self.telemetry.store_took(1, self.clock.now().since(before));
        answer.inspect_err(|error| self.telemetry.store_failed(error))
    }
}
