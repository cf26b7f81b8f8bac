//! The deferred queue: requests that are stored and sent later (`then: defer`).
//!
//! The gateway stores a request that is over its limit, and answers 202 once the request is
//! [stored](queue) durably. A worker [replays](replay) it as soon as its limit allows: at least once, first in
//! first out for each rule and key, and within the limit even if the process crashes repeatedly.

mod disk;
mod dispatch;
mod item;
mod metrics;
mod options;
mod queue;
mod queue_index;
mod queue_key;
mod replay;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

pub(crate) use item::{
    ItemDetails, ItemFilter, ItemId, ItemState, NewItem, StoredHead, StoredResponse,
};
pub use options::DeferOptions;
pub(crate) use queue::{DeferredQueue, QueueError, ReviveSelection, StartedAttempt};
pub(crate) use queue_index::QueueIndex;
pub(crate) use queue_key::{DeferredQueueKey, any_defers, is_deferrable};
pub(crate) use replay::{Delivery, RequestSender, replay};

use crate::background::{BackgroundWorker, guarded};
use crate::clock;
use crate::config::Config;
use crate::server::StartError;
use crate::store::AnyStore;
use disk::{DiskQueue, RecoveredItems};
use metrics::AttemptCounts;
use shared::RedisQueue;

/// The maximum number of concurrent status requests.
const MAX_STATUS_REQUESTS: usize = 64;

/// The deferred queue of a server.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) options: DeferOptions,
    queue: DeferredQueue,
    index: QueueIndex,
    attempts: AttemptCounts,
    /// Bounds the concurrent status requests.
    status_requests: Semaphore,
    /// Bounds the requests in flight to upstreams.
    in_flight: Arc<Semaphore>,
    /// The input of the replay task; taken once.
    replay_input: Mutex<Option<ReplayInput>>,
}

/// The input of the replay task.
#[derive(Debug)]
struct ReplayInput {
    new_queues: mpsc::UnboundedReceiver<Arc<DeferredQueueKey>>,
    recovered: RecoveredItems,
}

impl Deferred {
    /// Opens the deferred queue; `None` without a gateway or durable storage.
    pub(crate) async fn open(
        config: &Config,
        store: &AnyStore,
    ) -> Result<Option<Arc<Deferred>>, StartError> {
        let Some(gateway) = &config.gateway else { return Ok(None) };
        let options = gateway.defer.clone();
        if let AnyStore::Redis(shared) = store {
            let domain = gateway.domain.as_deref().unwrap_or_default();
            let queue = RedisQueue::new(shared.client().clone(), domain, &options)
                .map_err(StartError::Deferred)?;
            return Ok(Some(Deferred::new(
                options,
                DeferredQueue::Shared(queue),
                RecoveredItems::default(),
            )));
        }
        let Some(folder) = config.data.clone() else { return Ok(None) };
        let disk_options = options.clone();
        let opened =
            tokio::task::spawn_blocking(move || DiskQueue::open(&folder, &disk_options)).await;
        let (disk, recovered) = opened
            .map_err(|error| StartError::Deferred(error.to_string()))?
            .map_err(StartError::Deferred)?;
        Ok(Some(Deferred::new(options, DeferredQueue::Disk(disk), recovered)))
    }

    fn new(
        options: DeferOptions,
        queue: DeferredQueue,
        recovered: RecoveredItems,
    ) -> Arc<Deferred> {
        let (index, new_queues) = QueueIndex::new();
        recovered.queued.iter().for_each(|item| index.insert(item.clone()));
        Arc::new(Deferred {
            queue,
            index,
            attempts: AttemptCounts::default(),
            status_requests: Semaphore::new(MAX_STATUS_REQUESTS),
            in_flight: Arc::new(Semaphore::new(options.in_flight)),
            replay_input: Mutex::new(Some(ReplayInput { new_queues, recovered })),
            options,
        })
    }

    /// Returns the index of queued requests.
    pub(crate) fn index(&self) -> &QueueIndex {
        &self.index
    }

    /// Stores a request durably.
    ///
    /// The operation continues if the caller is cancelled, so that a stored request is always queued.
    pub(crate) async fn add(self: &Arc<Deferred>, item: NewItem) -> Result<(), QueueError> {
        let this = self.clone();
        let adding = tokio::spawn(guarded(BackgroundWorker::DeferredAdd, async move {
            let (id, queue_key, added_ms) = (item.id, item.queue_key.clone(), item.added_ms);
            let seq = this.queue.add(item).await?;
            // In a shared queue, the node that claims the request first sends it.
            if matches!(this.queue, DeferredQueue::Disk(_)) {
                this.index.insert(item::QueuedItem {
                    seq,
                    id,
                    queue_key,
                    added_ms,
                    due_ms: 0,
                    failures: 0,
                });
            } else {
                this.index.add_remote(&queue_key);
            }
            Ok(())
        }));
        let interrupted = |error: tokio::task::JoinError| {
            let reason = match error.is_panic() {
                true => "an internal error interrupted storing the request",
                false => "the server is shutting down",
            };
            Err(QueueError::Unavailable(reason.into()))
        };
        adding.await.unwrap_or_else(interrupted)
    }

    /// Returns the status of a request for its client.
    pub(crate) async fn status(&self, id: ItemId) -> Result<Option<serde_json::Value>, QueueError> {
        let busy = |_| QueueError::Unavailable("too many status requests at the same time".into());
        let _permit = self.status_requests.try_acquire().map_err(busy)?;
        let details = self.queue.details(id).await?;
        let position = self.index.position(id);
        let now_ms = clock::unix_ms();
        Ok(details.map(|details| details.for_client(position, now_ms, &self.options)))
    }

    /// Returns the details of a request for operators.
    pub(crate) async fn details(&self, id: ItemId) -> Result<Option<ItemDetails>, QueueError> {
        self.queue.details(id).await
    }

    /// Returns the matching requests, newest first.
    pub(crate) async fn list(&self, filter: ItemFilter) -> Result<Vec<ItemDetails>, QueueError> {
        self.queue.list(filter).await
    }

    /// Cancels a request; returns `false` if it is in flight or finished.
    pub(crate) async fn cancel(&self, id: ItemId) -> Result<bool, QueueError> {
        let cancelled = self.queue.cancel(id, clock::unix_ms()).await?;
        if cancelled {
            self.index.remove(id);
        }
        Ok(cancelled)
    }

    /// Queues dead letters again and returns their number.
    pub(crate) async fn revive(&self, selection: ReviveSelection) -> Result<usize, QueueError> {
        let (items, count) = self.queue.revive(selection, clock::unix_ms()).await?;
        items.into_iter().for_each(|item| self.index.insert(item));
        Ok(count)
    }

    /// Waits until no request is in flight.
    pub(crate) async fn finish(&self) {
        let all = u32::try_from(self.options.in_flight).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.in_flight.acquire_many(all).await;
        if let DeferredQueue::Shared(shared) = &self.queue {
            shared.leave().await;
        }
    }

    /// Closes the queue, so that another server can open it. Blocks the thread.
    ///
    /// Returns `false` if the queued operations are not done within `patience`.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        match &self.queue {
            DeferredQueue::Disk(disk) => disk.close(patience),
            DeferredQueue::Shared(_) => true,
        }
    }

    /// Returns how long the disk of the queue has not answered, if that is too long.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        match &self.queue {
            DeferredQueue::Disk(disk) => disk.stalled_for(),
            DeferredQueue::Shared(_) => None,
        }
    }
}

#[cfg(test)]
mod bounds_tests;
#[cfg(test)]
mod tests;
