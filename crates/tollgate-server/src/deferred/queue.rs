//! Where deferred requests are kept: on this node's disk, or in a shared store.

use bytes::Bytes;

use super::disk::Disk;
use super::item::{Answer, Entry, Head, ItemId, NewItem, State, Summary, Waiting, Wanted};
use super::shared::InRedis;

/// Why nothing was kept or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    /// There is no room for another one.
    #[error("{0}")]
    Full(String),
    /// It cannot be asked.
    #[error("{0}")]
    Trouble(String),
}

pub(crate) type Result<T, E = QueueError> = std::result::Result<T, E>;

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// Which attempt it is, counted from 1.
    pub(crate) attempt: u32,
    pub(crate) head: Head,
    pub(crate) body: Bytes,
}

/// Which dead letters are tried again.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    One(ItemId),
    /// All of a rule; all there are without one.
    All(Option<String>),
}

/// What becomes of a request after an attempt in vain.
#[derive(Clone, Debug)]
pub(crate) struct Back {
    pub(crate) due_ms: i64,
    pub(crate) why: String,
    /// Whether nothing of it can have reached the upstream: such an attempt does not count.
    pub(crate) is_unsent: bool,
}

/// How a request ends.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) state: State,
    pub(crate) why: Option<String>,
    pub(crate) answer: Option<Answer>,
}

/// Where deferred requests are kept. What is done is durable once it is answered.
#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Disk(Disk),
    Shared(InRedis),
}

impl Queue {
    /// Keeps a request; its turn.
    pub(crate) async fn add(&self, item: NewItem) -> Result<u64> {
        match self {
            Queue::Disk(disk) => disk.add(item).await,
            Queue::Shared(shared) => shared.add(item).await,
        }
    }

    /// The head of a request; none if there is no such request.
    pub(crate) async fn head(&self, id: ItemId) -> Result<Option<Head>> {
        match self {
            Queue::Disk(disk) => disk.head(id).await,
            Queue::Shared(shared) => shared.head(id).await,
        }
    }

    /// A request is about to be sent; none if it does not wait any more.
    pub(crate) async fn begin(&self, id: ItemId, now_ms: i64) -> Result<Option<Begun>> {
        match self {
            Queue::Disk(disk) => disk.begin(id, now_ms).await,
            Queue::Shared(shared) => shared.begin(id, now_ms).await,
        }
    }

    /// An attempt was in vain: it waits again.
    pub(crate) async fn back(&self, id: ItemId, back: Back, now_ms: i64) -> Result<()> {
        match self {
            Queue::Disk(disk) => disk.back(id, back, now_ms).await,
            Queue::Shared(shared) => shared.back(id, back, now_ms).await,
        }
    }

    /// It is over.
    pub(crate) async fn end(&self, id: ItemId, end: End, now_ms: i64) -> Result<()> {
        match self {
            Queue::Disk(disk) => disk.end(id, end, now_ms).await,
            Queue::Shared(shared) => shared.end(id, end, now_ms).await,
        }
    }

    /// Whether it will not be sent: only what waits, or is a dead letter, can be cancelled.
    pub(crate) async fn cancel(&self, id: ItemId, now_ms: i64) -> Result<bool> {
        match self {
            Queue::Disk(disk) => disk.cancel(id, now_ms).await,
            Queue::Shared(shared) => shared.cancel(id, now_ms).await,
        }
    }

    /// Dead letters wait again: those that do here from now on, and how many there were.
    pub(crate) async fn revive(&self, which: Which, now_ms: i64) -> Result<(Vec<Waiting>, usize)> {
        match self {
            Queue::Disk(disk) => disk.revive(which, now_ms).await,
            Queue::Shared(shared) => Ok((Vec::new(), shared.revive(which, now_ms).await?)),
        }
    }

    pub(crate) async fn entry(&self, id: ItemId) -> Result<Option<Entry>> {
        match self {
            Queue::Disk(disk) => disk.entry(id).await,
            Queue::Shared(shared) => shared.entry(id).await,
        }
    }

    /// Those that are wanted, the newest first.
    pub(crate) async fn list(&self, wanted: Wanted) -> Result<Vec<Entry>> {
        match self {
            Queue::Disk(disk) => disk.list(wanted).await,
            Queue::Shared(shared) => shared.list(wanted).await,
        }
    }

    pub(crate) async fn summary(&self) -> Result<Summary> {
        match self {
            Queue::Disk(disk) => disk.summary().await,
            Queue::Shared(shared) => shared.summary().await,
        }
    }

    /// Forgets what nobody needs any more.
    pub(crate) async fn sweep(&self, now_ms: i64) -> Result<()> {
        match self {
            Queue::Disk(disk) => disk.sweep(now_ms).await,
            Queue::Shared(shared) => shared.sweep(now_ms).await,
        }
    }
}
