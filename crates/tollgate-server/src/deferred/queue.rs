//! The deferred queue: on this node's disk, or in a shared store.

use bytes::Bytes;

use super::disk::DiskQueue;
use super::item::{
    ItemDetails, ItemFilter, ItemId, ItemState, NewItem, QueueSummary, QueuedItem, StoredHead,
    StoredResponse,
};
use super::shared::RedisQueue;

/// The reason why the queue refused an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    /// The queue is full.
    #[error("{0}")]
    Full(String),
    /// The storage of the queue failed.
    #[error("{0}")]
    Unavailable(String),
}

pub(crate) type Result<T, E = QueueError> = std::result::Result<T, E>;

/// A request whose attempt has started.
#[derive(Clone, Debug)]
pub(crate) struct StartedAttempt {
    /// The number of the attempt, counted from 1.
    pub(crate) attempt: u32,
    pub(crate) head: StoredHead,
    pub(crate) body: Bytes,
}

/// A selection of dead letters to send again.
#[derive(Clone, Debug)]
pub(crate) enum ReviveSelection {
    One(ItemId),
    /// All dead letters of a rule, or of all rules.
    All(Option<String>),
}

/// The next attempt of a request after a failed one.
#[derive(Clone, Debug)]
pub(crate) struct Requeue {
    pub(crate) due_ms: i64,
    pub(crate) reason: String,
    /// Whether nothing reached the upstream, so that the attempt does not count.
    pub(crate) is_unsent: bool,
}

/// The final state of a request.
#[derive(Clone, Debug)]
pub(crate) struct Completion {
    pub(crate) state: ItemState,
    pub(crate) reason: Option<String>,
    pub(crate) response: Option<StoredResponse>,
}

/// Logs that dead letters were removed because of their age.
pub(super) fn report_expired(count: u64) {
    if count > 0 {
        tracing::warn!(count, "removed dead letters of the deferred queue that expired");
    }
}

/// A durable queue. An operation is durable once it has returned.
#[derive(Clone, Debug)]
pub(crate) enum DeferredQueue {
    Disk(DiskQueue),
    Shared(RedisQueue),
}

impl DeferredQueue {
    /// Stores a request and returns its sequence number.
    pub(crate) async fn add(&self, item: NewItem) -> Result<u64> {
        match self {
            DeferredQueue::Disk(disk) => disk.add(item).await,
            DeferredQueue::Shared(shared) => shared.add(item).await,
        }
    }

    /// Returns the head of a queued request; `None` if it is not queued.
    pub(crate) async fn head(&self, id: ItemId) -> Result<Option<StoredHead>> {
        match self {
            DeferredQueue::Disk(disk) => disk.head(id).await,
            DeferredQueue::Shared(shared) => shared.head(id).await,
        }
    }

    /// Starts an attempt; returns `None` if the request is no longer queued.
    pub(crate) async fn begin(&self, id: ItemId, now_ms: i64) -> Result<Option<StartedAttempt>> {
        match self {
            DeferredQueue::Disk(disk) => disk.begin(id, now_ms).await,
            DeferredQueue::Shared(shared) => shared.begin(id, now_ms).await,
        }
    }

    /// Queues a request again after a failed attempt.
    pub(crate) async fn requeue(&self, id: ItemId, requeue: Requeue, now_ms: i64) -> Result<()> {
        match self {
            DeferredQueue::Disk(disk) => disk.requeue(id, requeue, now_ms).await,
            DeferredQueue::Shared(shared) => shared.requeue(id, requeue, now_ms).await,
        }
    }

    /// Finishes a request.
    pub(crate) async fn complete(
        &self,
        id: ItemId,
        completion: Completion,
        now_ms: i64,
    ) -> Result<()> {
        match self {
            DeferredQueue::Disk(disk) => disk.complete(id, completion, now_ms).await,
            DeferredQueue::Shared(shared) => shared.complete(id, completion, now_ms).await,
        }
    }

    /// Cancels a queued request or a dead letter; returns whether it was possible.
    pub(crate) async fn cancel(&self, id: ItemId, now_ms: i64) -> Result<bool> {
        match self {
            DeferredQueue::Disk(disk) => disk.cancel(id, now_ms).await,
            DeferredQueue::Shared(shared) => shared.cancel(id, now_ms).await,
        }
    }

    /// Queues dead letters again; returns those queued on this node and the total number.
    pub(crate) async fn revive(
        &self,
        selection: ReviveSelection,
        now_ms: i64,
    ) -> Result<(Vec<QueuedItem>, usize)> {
        match self {
            DeferredQueue::Disk(disk) => disk.revive(selection, now_ms).await,
            DeferredQueue::Shared(shared) => {
                Ok((Vec::new(), shared.revive(selection, now_ms).await?))
            }
        }
    }

    /// Returns the details of a request; `None` if it is unknown.
    pub(crate) async fn details(&self, id: ItemId) -> Result<Option<ItemDetails>> {
        match self {
            DeferredQueue::Disk(disk) => disk.details(id).await,
            DeferredQueue::Shared(shared) => shared.details(id).await,
        }
    }

    /// Returns the matching requests, newest first.
    pub(crate) async fn list(&self, filter: ItemFilter) -> Result<Vec<ItemDetails>> {
        match self {
            DeferredQueue::Disk(disk) => disk.list(filter).await,
            DeferredQueue::Shared(shared) => shared.list(filter).await,
        }
    }

    /// Returns the number of requests by state.
    pub(crate) async fn summary(&self) -> Result<QueueSummary> {
        match self {
            DeferredQueue::Disk(disk) => disk.summary().await,
            DeferredQueue::Shared(shared) => shared.summary().await,
        }
    }

    /// Removes finished requests and dead letters that are too old.
    pub(crate) async fn sweep(&self, now_ms: i64) -> Result<()> {
        match self {
            DeferredQueue::Disk(disk) => disk.sweep(now_ms).await,
            DeferredQueue::Shared(shared) => shared.sweep(now_ms).await,
        }
    }
}
