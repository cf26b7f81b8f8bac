//! The registry of the nodes that share the counters. Every second each node registers itself, and
//! reports whether it gave units back that others may believe exhausted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use redis::Value;
use tollgate::Time;

use crate::arguments::Arguments;
use crate::client::RedisClient;
use crate::function::ServerFunction;

/// This node's entry in the registry, and the number of nodes.
#[derive(Debug)]
pub(crate) struct NodeRegistry {
    key: Vec<u8>,
    /// A random name, new at every start, so that a restarted node is not taken for the old one.
    id: String,
    count: Arc<AtomicU64>,
    /// The last known time at which units were given back, in microseconds of the store's clock.
    last_given_back: AtomicU64,
}

/// The reply of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeReport {
    count: u64,
    /// The time at which a node last gave units back; 0 if not recently.
    given_back: u64,
}

impl NodeRegistry {
    pub(crate) fn new(prefix: &str) -> NodeRegistry {
        // Two draws of the operating system's randomness.
        let draw = || RandomState::new().hash_one(std::process::id());
        let id = format!("{:016x}{:016x}", draw(), draw());
        let count = Arc::new(AtomicU64::new(1));
        let key = format!("{prefix}:nodes").into_bytes();
        NodeRegistry { key, id, count, last_given_back: AtomicU64::new(0) }
    }

    /// Returns the number of nodes, including this one, as far as it is known.
    pub(crate) fn count(&self) -> &Arc<AtomicU64> {
        &self.count
    }

    /// Registers this node, and whether it gave units back. Returns when any node last gave units
    /// back, if that is new; `Err` if a group was not reached.
    pub(crate) async fn heartbeat(
        &self,
        client: &RedisClient,
        gave_back: bool,
    ) -> Result<Option<Time>, ()> {
        let reports = self.report(client, b"here", gave_back).await;
        let known = || reports.iter().flatten();
        // A group that fails, or was just added, knows of fewer nodes.
        if let Some(most) = known().map(|reports| reports.count).max() {
            self.count.store(most.max(1), Ordering::Relaxed);
        }
        if reports.iter().any(Option::is_none) {
            return Err(());
        }
        let given_back = known().map(|reports| reports.given_back).max().unwrap_or(0);
        // The time may be earlier than the last one, after the store's clock stepped back.
        let last = self.last_given_back.swap(given_back, Ordering::Relaxed);
        let news = given_back > 0 && given_back != last;
        Ok(news.then(|| Time::from_nanos(given_back.saturating_mul(1_000))))
    }

    /// Removes this node from the registry.
    pub(crate) async fn leave(&self, client: &RedisClient) {
        self.report(client, b"gone", false).await;
    }

    async fn report(
        &self,
        client: &RedisClient,
        status: &[u8],
        gave_back: bool,
    ) -> Vec<Option<NodeReport>> {
        let (mut keys, mut args) = (Arguments::default(), Arguments::default());
        keys.push(&self.key);
        args.push(self.id.as_bytes());
        args.push(status);
        args.number(gave_back.into());
        let (keys, args) = (&keys, &args);
        let report = |route| async move {
            match client.run(route, ServerFunction::nodes(), keys, args).await {
                Ok(value) => NodeReport::read(&value),
                Err(error) => {
                    tracing::debug!(%error, "cannot register this node with a group");
                    None
                }
            }
        };
        join_all(client.routes(&self.key).map(report)).await
    }
}

impl NodeReport {
    pub(crate) fn read(value: &Value) -> Option<NodeReport> {
        match value {
            Value::Array(parts) => match parts[..] {
                [Value::Int(count), Value::Int(given_back)] => Some(NodeReport {
                    count: u64::try_from(count).ok()?,
                    given_back: u64::try_from(given_back).ok()?,
                }),
                _ => None,
            },
            _ => None,
        }
    }
}
