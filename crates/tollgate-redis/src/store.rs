//! The store.

use std::sync::Arc;

use tollgate::{Call, Clock, Store, StoreError, Verdicts};

use crate::fleet::{Fleet, Health};
use crate::strict::Strict;
use crate::{ConnectError, Options};

/// Counters in Redis or Valkey, shared by all who connect with the same prefix. Clones share
/// connections.
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Strict>);

impl RedisStore {
    /// Connects. A server that is down is no error: calls fail until it is there.
    pub async fn connect(options: Options) -> Result<RedisStore, ConnectError> {
        let fleet = Fleet::open(&options).await?;
        Ok(RedisStore(Arc::new(Strict::new(fleet, &options.prefix, None))))
    }

    /// The same with a time of the test's own instead of the server's.
    pub async fn connect_at(
        options: Options,
        clock: impl Into<Clock>,
    ) -> Result<RedisStore, ConnectError> {
        let fleet = Fleet::open(&options).await?;
        Ok(RedisStore(Arc::new(Strict::new(fleet, &options.prefix, Some(clock.into())))))
    }

    /// How the servers are.
    pub fn health(&self) -> Health {
        self.0.fleet().health()
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
        self.0.fleet().health_after(before).await
    }
}

impl Store for RedisStore {
    async fn run(&self, call: Call<'_>) -> Result<Verdicts, StoreError> {
        Ok(self.0.run(call).await?.verdicts)
    }

    fn is_shared(&self) -> bool {
        true
    }
}
