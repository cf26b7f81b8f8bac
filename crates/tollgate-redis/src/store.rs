//! The store.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, MissedTickBehavior};
use tollgate::{Call, Clock, Note, Notes, Store, StoreError, Verdicts};

use crate::fleet::{Fleet, Health};
use crate::modes::{Modes, Nodes};
use crate::notes::Board;
use crate::strict::Strict;
use crate::{ConnectError, Desk, Options};

/// How often aged chunks are looked for.
const TIDY: Duration = Duration::from_millis(50);
/// How often a node says that it is there.
const BEAT: Duration = Duration::from_secs(1);

/// Counters in Redis or Valkey, shared by all who connect with the same prefix. Clones share
/// connections.
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    strict: Arc<Strict>,
    modes: Arc<Modes<Strict>>,
    nodes: Arc<Nodes>,
    board: Board,
    runtime: Handle,
}

impl RedisStore {
    /// Connects. A server that is down is no error: calls fail until it is there.
    pub async fn connect(options: Options) -> Result<RedisStore, ConnectError> {
        RedisStore::open(options, None).await
    }

    /// The same with a time of the test's own instead of the server's.
    pub async fn connect_at(
        options: Options,
        clock: impl Into<Clock>,
    ) -> Result<RedisStore, ConnectError> {
        RedisStore::open(options, Some(clock.into())).await
    }

    async fn open(options: Options, clock: Option<Clock>) -> Result<RedisStore, ConnectError> {
        let fleet = Fleet::open(&options).await?;
        let strict = Arc::new(Strict::new(fleet, &options.prefix, clock));
        let nodes = Arc::new(Nodes::new(&options.prefix));
        let modes = Arc::new(Modes::new(strict.clone(), nodes.count().clone()));
        let (board, runtime) = (Board::new(&options.prefix), Handle::current());
        let inner = Arc::new(Inner { strict, modes, nodes, board, runtime });
        inner.beat().await;
        every(BEAT, &inner, |inner| async move { inner.beat().await });
        every(TIDY, &inner, |inner| async move { inner.modes.tidy().await });
        every(options.sync_interval, &inner, |inner| async move { inner.modes.exchange().await });
        Ok(RedisStore(inner))
    }

    /// How much `synced` limits may be exceeded at the moment, at most: what the other nodes can
    /// admit before this one knows of it. 0 if no limit is synced, or nobody else is there.
    pub fn overshoot_bound(&self) -> u64 {
        self.0.modes.overshoot_bound()
    }

    /// Brings back what this node holds of `leased` limits, and tells what it has spent of `synced`
    /// ones: for an orderly end. Dropping the last clone does the same, if its runtime goes on for
    /// long enough.
    pub async fn flush(&self) {
        self.0.modes.flush().await;
    }

    /// Where a gateway keeps the deferred requests of a domain.
    pub fn desk(&self, domain: &str) -> Desk {
        Desk::new(self.0.strict.clone(), domain)
    }

    /// How the servers are.
    pub fn health(&self) -> Health {
        self.0.strict.fleet().health()
    }

    /// How they are once something has changed, for better or worse: to log it once.
    ///
    /// ```no_run
    /// # async fn follow(store: tollgate_redis::RedisStore) {
    /// let mut health = store.health();
    /// loop {
    ///     health = store.health_after(&health).await;
    ///     for trouble in health.groups.iter().flat_map(|group| &group.troubles) {
    ///         eprintln!("{}", trouble.why);
    ///     }
    /// }
    /// # }
    /// ```
    pub async fn health_after(&self, before: &Health) -> Health {
        self.0.strict.fleet().health_after(before).await
    }
}

impl Store for RedisStore {
    async fn run(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        self.0.modes.run(call).await
    }

    fn nodes(&self) -> u64 {
        self.0.nodes.count().load(Ordering::Relaxed)
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn note(&self, note: Note<'_>) -> Result<Option<Notes>, StoreError> {
        self.0.board.note(self.0.strict.fleet(), note).await.map(Some)
    }
}

impl Inner {
    /// Says that this node is there, and hears of the others.
    async fn beat(&self) {
        let gave_back = self.modes.has_given_back().swap(false, Ordering::Relaxed);
        match self.nodes.beat(self.strict.fleet(), gave_back).await {
            Ok(Some(at)) => self.modes.doubt(at),
            Ok(None) => {}
            // It must be said again.
            Err(()) => drop(self.modes.has_given_back().fetch_or(gave_back, Ordering::Relaxed)),
        }
    }
}

/// Does something again and again, for as long as the store is there.
fn every<F>(interval: Duration, inner: &Arc<Inner>, job: impl Fn(Arc<Inner>) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send,
{
    let inner: Weak<Inner> = Arc::downgrade(inner);
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

impl Drop for Inner {
    fn drop(&mut self) {
        let (strict, modes, nodes) = (self.strict.clone(), self.modes.clone(), self.nodes.clone());
        self.runtime.spawn(async move {
            modes.flush().await;
            nodes.leave(strict.fleet()).await;
        });
    }
}
