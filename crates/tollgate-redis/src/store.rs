//! The store: counters in Redis, decided strictly, from leases or synced.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior};
use tollgate::{Clock, SharedText, SharedTexts, Store, StoreCall, StoreError, Verdicts};

use crate::client::{Health, RedisClient};
use crate::mode_router::ModeRouter;
use crate::node_registry::NodeRegistry;
use crate::shared_texts::SharedTextList;
use crate::strict::StrictStore;
use crate::{ConnectError, Options};

/// The interval at which unused lease chunks are returned.
const RETURN_INTERVAL: Duration = Duration::from_millis(50);
/// The interval at which a node registers itself.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);

/// A store of counters in Redis or Valkey, shared by all nodes that use the same prefix. Clones
/// share connections.
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<StoreInner>);

#[derive(Debug)]
struct StoreInner {
    strict: Arc<StrictStore>,
    modes: Arc<ModeRouter<StrictStore>>,
    nodes: Arc<NodeRegistry>,
    shared_texts: SharedTextList,
    runtime: Handle,
}

impl RedisStore {
    /// Connects to the servers. A server that is down is not an error: calls fail until it is back.
    pub async fn connect(options: Options) -> Result<RedisStore, ConnectError> {
        RedisStore::open(options, None).await
    }

    /// Connects to the servers and decides by `clock` instead of theirs, for tests.
    pub async fn connect_at(
        options: Options,
        clock: impl Into<Clock>,
    ) -> Result<RedisStore, ConnectError> {
        RedisStore::open(options, Some(clock.into())).await
    }

    async fn open(options: Options, clock: Option<Clock>) -> Result<RedisStore, ConnectError> {
        let client = RedisClient::open(&options).await?;
        let strict = Arc::new(StrictStore::new(client, &options.prefix, clock));
        let nodes = Arc::new(NodeRegistry::new(&options.prefix));
        let modes = Arc::new(ModeRouter::new(strict.clone(), nodes.count().clone()));
        let shared_texts = SharedTextList::new(&options.prefix);
        let runtime = Handle::current();
        let inner = Arc::new(StoreInner { strict, modes, nodes, shared_texts, runtime });
        inner.heartbeat().await;
        every(HEARTBEAT_INTERVAL, &inner, |inner| async move { inner.heartbeat().await });
        every(RETURN_INTERVAL, &inner, |inner| async move { inner.modes.return_chunks().await });
        every(options.sync_interval, &inner, |inner| async move { inner.modes.exchange().await });
        Ok(RedisStore(inner))
    }

    /// Returns the maximum by which `synced` limits may be exceeded now. It counts admissions of
    /// other nodes that this one does not know of yet. 0 if no limit is synced, or this is the only
    /// node.
    pub fn overshoot_bound(&self) -> u64 {
        self.0.modes.overshoot_bound()
    }

    /// Returns unused units of `leased` limits, and pushes what this node has spent of `synced`
    /// ones. Dropping the last clone does this too, if the runtime lives long enough.
    pub async fn flush(&self) {
        self.0.modes.flush().await;
    }

    /// Returns the client, to call further functions over the same connections.
    pub fn client(&self) -> &RedisClient {
        self.0.strict.client()
    }

    /// Returns the health of all servers.
    pub fn health(&self) -> Health {
        self.client().health()
    }

    /// Waits until the health differs from `before`, and returns it: to log each change once.
    ///
    /// ```no_run
    /// # async fn follow(store: tollgate_redis::RedisStore) {
    /// let mut health = store.health();
    /// loop {
    ///     health = store.health_after(&health).await;
    ///     for outage in health.groups.iter().flat_map(|group| &group.outages) {
    ///         eprintln!("{}", outage.reason);
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn health_after(&self, before: &Health) -> Health {
        self.client().health_after(before).await
    }
}

impl Store for RedisStore {
    async fn run(&self, call: StoreCall<'_>) -> Result<Verdicts, StoreError> {
        self.0.modes.run(call).await
    }

    fn nodes(&self) -> u64 {
        self.0.nodes.count().load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn share_text(&self, text: SharedText<'_>) -> Result<Option<SharedTexts>, StoreError> {
        let clock = self.0.strict.clock();
        self.0.shared_texts.share_text(self.client(), clock, text).await.map(Some)
    }
}

impl StoreInner {
    /// Registers this node, and learns how many nodes there are and whether one gave units back.
    async fn heartbeat(&self) {
        let gave_back = self.modes.gave_back_flag().swap(false, Ordering::Relaxed);
        match self.nodes.heartbeat(self.strict.client(), gave_back).await {
            Ok(Some(at)) => self.modes.forget_refusals(at),
            Ok(None) => {}
            // The next heartbeat reports it again.
            Err(()) => drop(self.modes.gave_back_flag().fetch_or(gave_back, Ordering::Relaxed)),
        }
    }
}

/// Runs a job at an interval until the store is dropped.
fn every<F>(
    interval: Duration,
    inner: &Arc<StoreInner>,
    job: impl Fn(Arc<StoreInner>) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send,
{
    let inner: Weak<StoreInner> = Arc::downgrade(inner);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(inner) = inner.upgrade() else { return };
            job(inner).await;
        }
    });
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        let (strict, modes, nodes) = (self.strict.clone(), self.modes.clone(), self.nodes.clone());
        self.runtime.spawn(async move {
            modes.flush().await;
            nodes.leave(strict.client()).await;
        });
    }
}
