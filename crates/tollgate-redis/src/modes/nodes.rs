//! Which nodes share the counters: each says every second that it is there, and whether it gave
//! something back that others may think exhausted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use redis::Value;
use tollgate::Time;

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
    /// The latest giving back that was heard of, in microseconds of the store's time.
    heard: AtomicU64,
}

/// What a group says of the nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    count: u64,
    /// When one of them last gave something back; 0 if not lately.
    given_back: u64,
}

impl Nodes {
    pub(crate) fn new(prefix: &str) -> Nodes {
        // Two draws of the operating system's randomness.
        let draw = || RandomState::new().hash_one(std::process::id());
        let id = format!("{:016x}{:016x}", draw(), draw());
        let count = Arc::new(AtomicU64::new(1));
        let key = format!("{prefix}:nodes").into_bytes();
        Nodes { key, id, count, heard: AtomicU64::new(0) }
    }

    /// How many nodes there are, this one included, as far as is known.
    pub(crate) fn count(&self) -> &Arc<AtomicU64> {
        &self.count
    }

    /// Says that this node is there, and whether it gave something back; counts; and says when
    /// somebody last gave something back, if that is news. `Err` if not all groups were told.
    pub(crate) async fn beat(&self, fleet: &Fleet, gave_back: bool) -> Result<Option<Time>, ()> {
        let heard = self.tell(fleet, b"here", gave_back).await;
        let known = || heard.iter().flatten();
        // A group that does not answer, or has just been added, knows of fewer.
        if let Some(most) = known().map(|heard| heard.count).max() {
            self.count.store(most.max(1), Ordering::Relaxed);
        }
        if heard.iter().any(Option::is_none) {
            return Err(());
        }
        let given_back = known().map(|heard| heard.given_back).max().unwrap_or(0);
        let news = self.heard.fetch_max(given_back, Ordering::Relaxed) < given_back;
        Ok(news.then(|| Time::from_nanos(given_back.saturating_mul(1_000))))
    }

    /// Says that this node is going.
    pub(crate) async fn leave(&self, fleet: &Fleet) {
        self.tell(fleet, b"gone", false).await;
    }

    async fn tell(&self, fleet: &Fleet, word: &[u8], gave_back: bool) -> Vec<Option<Heard>> {
        let (mut keys, mut words) = (Words::default(), Words::default());
        keys.push(&self.key);
        words.push(self.id.as_bytes());
        words.push(word);
        words.number(gave_back.into());
        let (keys, words) = (&keys, &words);
        let tell = |place| async move {
            match fleet.run(place, Script::nodes(), keys, words).await {
                Ok(value) => Heard::read(&value),
                Err(error) => {
                    tracing::debug!(%error, "a group was not told that this node is there");
                    None
                }
            }
        };
        join_all(fleet.places(&self.key).map(tell)).await
    }
}

impl Heard {
    fn read(value: &Value) -> Option<Heard> {
        match value {
            Value::Array(parts) => match parts[..] {
                [Value::Int(count), Value::Int(given_back)] => Some(Heard {
                    count: u64::try_from(count).ok()?,
                    given_back: u64::try_from(given_back).ok()?,
                }),
                _ => None,
            },
            _ => None,
        }
    }
}
