//! Which nodes share the counters: each says every second that it is there.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use redis::Value;

use crate::fleet::Fleet;
use crate::script::Script;
use crate::words::Words;

/// This node, and how many there are.
#[derive(Debug)]
pub(crate) struct Nodes {
    key: Vec<u8>,
    /// New with every start, so that a node that comes back is not taken for the one that left.
    id: String,
    count: Arc<AtomicU64>,
}

impl Nodes {
    pub(crate) fn new(prefix: &str) -> Nodes {
        // Two draws of the operating system's randomness.
        let draw = || RandomState::new().hash_one(std::process::id());
        let id = format!("{:016x}{:016x}", draw(), draw());
        let count = Arc::new(AtomicU64::new(1));
        Nodes { key: format!("{prefix}:nodes").into_bytes(), id, count }
    }

    /// How many nodes there are, this one included, as far as is known.
    pub(crate) fn count(&self) -> &Arc<AtomicU64> {
        &self.count
    }

    /// Says that this node is there, and counts.
    pub(crate) async fn beat(&self, fleet: &Fleet) {
        let counts = self.tell(fleet, b"here").await;
        // A group that does not answer, or has just been added, knows of fewer.
        if let Some(most) = counts.into_iter().flatten().max() {
            self.count.store(most.max(1), Ordering::Relaxed);
        }
    }

    /// Says that this node is going.
    pub(crate) async fn leave(&self, fleet: &Fleet) {
        self.tell(fleet, b"gone").await;
    }

    async fn tell(&self, fleet: &Fleet, word: &[u8]) -> Vec<Option<u64>> {
        let (mut keys, mut words) = (Words::default(), Words::default());
        keys.push(&self.key);
        words.push(self.id.as_bytes());
        words.push(word);
        let (keys, words) = (&keys, &words);
        let tell = |place| async move {
            match fleet.run(place, Script::nodes(), keys, words).await {
                Ok(Value::Int(count)) => u64::try_from(count).ok(),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(%error, "a group was not told that this node is there");
                    None
                }
            }
        };
        join_all(fleet.places(&self.key).map(tell)).await
    }
}
