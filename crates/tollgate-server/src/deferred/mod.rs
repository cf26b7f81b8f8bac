//! Requests that are kept for later: `then: defer`.
//!
//! The gateway hands over a request that is over the limit, answers 202 once it is [kept](queue)
//! where it outlives the process, and [replays](replay) it as soon as its limit allows: at least
//! once, first in first out for each rule and key, and never quicker than the rule says, also if the
//! process is killed over and over again.

mod disk;
mod item;
mod lines;
mod options;
mod queue;
mod replay;
mod report;
mod shared;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tollgate::rules::DeferLine;

pub(crate) use item::{Answer, Entry, Head, ItemId, NewItem, State, Wanted};
pub(crate) use lines::Lines;
pub use options::DeferOptions;
pub(crate) use queue::{Begun, Queue, QueueError, Which};
pub(crate) use replay::{Courier, Delivered, replay};

use crate::clock;
use crate::config::Config;
use crate::server::StartError;
use crate::store::AnyStore;
use disk::{Disk, Found};
use report::Tally;
use shared::InRedis;

/// What bodies that are being read for the queue may weigh together, in KiB.
const READING: usize = 64 << 10;
/// How many may ask at a time what became of their requests.
const ASKING: usize = 64;

/// The requests of a server that are deferred.
#[derive(Debug)]
pub(crate) struct Deferred {
    pub(crate) options: DeferOptions,
    queue: Queue,
    lines: Lines,
    tally: Tally,
    /// Room for bodies on their way into the queue.
    pub(crate) reading: Semaphore,
    asking: Semaphore,
    /// Places for requests on their way to upstreams.
    in_flight: Arc<Semaphore>,
    /// What the one who replays is to know; taken once.
    handover: Mutex<Option<Handover>>,
}

/// What the one who replays takes over.
#[derive(Debug)]
struct Handover {
    begun: mpsc::UnboundedReceiver<Arc<DeferLine>>,
    found: Found,
}

impl Deferred {
    /// Where this server keeps deferred requests; nowhere if it has no gateway, or no place that
    /// outlives it.
    pub(crate) async fn open(
        config: &Config,
        store: &AnyStore,
    ) -> Result<Option<Arc<Deferred>>, StartError> {
        let Some(gateway) = &config.gateway else { return Ok(None) };
        let options = gateway.defer.clone();
        if let AnyStore::Redis(shared) = store {
            let desk = shared.desk(gateway.domain.as_deref().unwrap_or_default());
            let queue = InRedis::new(desk, &options).map_err(StartError::Deferred)?;
            return Ok(Some(Deferred::new(options, Queue::Shared(queue), Found::default())));
        }
        let Some(folder) = config.data.clone() else { return Ok(None) };
        let asked = options.clone();
        let opened = tokio::task::spawn_blocking(move || Disk::open(&folder, &asked)).await;
        let (disk, found) = opened
            .map_err(|error| StartError::Deferred(error.to_string()))?
            .map_err(StartError::Deferred)?;
        Ok(Some(Deferred::new(options, Queue::Disk(disk), found)))
    }

    fn new(options: DeferOptions, queue: Queue, found: Found) -> Arc<Deferred> {
        let (lines, begun) = Lines::new();
        found.waiting.iter().for_each(|waiting| lines.join(waiting.clone()));
        Arc::new(Deferred {
            queue,
            lines,
            tally: Tally::default(),
            reading: Semaphore::new(READING),
            asking: Semaphore::new(ASKING),
            in_flight: Arc::new(Semaphore::new(options.in_flight)),
            handover: Mutex::new(Some(Handover { begun, found })),
            options,
        })
    }

    /// Who stands in which line.
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Keeps a request. Once this is answered it outlives the process. Goes on if nobody waits for
    /// the answer: a request is in its line as soon as it is kept.
    pub(crate) async fn add(self: &Arc<Deferred>, item: NewItem) -> Result<(), QueueError> {
        let this = self.clone();
        let adding = tokio::spawn(async move {
            let (id, line, added_ms) = (item.id, item.line.clone(), item.added_ms);
            let seq = this.queue.add(item).await?;
            // What nodes share is sent by who takes it first.
            if matches!(this.queue, Queue::Disk(_)) {
                this.lines.join(item::Waiting { seq, id, line, added_ms, due_ms: 0, failures: 0 });
            } else {
                this.lines.expect(&line);
            }
            Ok(())
        });
        let gone = |_| Err(QueueError::Trouble("the server is going down".into()));
        adding.await.unwrap_or_else(gone)
    }

    /// What became of a request, for who sent it.
    pub(crate) async fn status(&self, id: ItemId) -> Result<Option<serde_json::Value>, QueueError> {
        let busy = |_| QueueError::Trouble("too many ask at the same time".into());
        let _asking = self.asking.try_acquire().map_err(busy)?;
        let entry = self.queue.entry(id).await?;
        let position = self.lines.position(id);
        Ok(entry.map(|entry| entry.for_client(position, clock::unix_ms())))
    }

    /// One request, for operators.
    pub(crate) async fn entry(&self, id: ItemId) -> Result<Option<Entry>, QueueError> {
        self.queue.entry(id).await
    }

    /// Many, the newest first.
    pub(crate) async fn list(&self, wanted: Wanted) -> Result<Vec<Entry>, QueueError> {
        self.queue.list(wanted).await
    }

    /// Whether a request will not be sent: not if it is on its way, or over.
    pub(crate) async fn cancel(&self, id: ItemId) -> Result<bool, QueueError> {
        let cancelled = self.queue.cancel(id, clock::unix_ms()).await?;
        if cancelled {
            self.lines.leave(id);
        }
        Ok(cancelled)
    }

    /// Has dead letters sent again; how many.
    pub(crate) async fn revive(&self, which: Which) -> Result<usize, QueueError> {
        let (waiting, count) = self.queue.revive(which, clock::unix_ms()).await?;
        waiting.into_iter().for_each(|waiting| self.lines.join(waiting));
        Ok(count)
    }

    /// Done once nothing is on its way any more.
    pub(crate) async fn finish(&self) {
        let all = u32::try_from(self.options.in_flight).unwrap_or(u32::MAX);
        // It is never closed.
        let _ = self.in_flight.acquire_many(all).await;
        if let Queue::Shared(shared) = &self.queue {
            shared.leave().await;
        }
    }

    /// Lets go of what is kept, so that another server may have it. Blocks the thread.
    pub(crate) fn close(&self) {
        match &self.queue {
            Queue::Disk(disk) => disk.close(),
            Queue::Shared(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
