//! The deferred queue on this node's disk: a database and the thread that owns it.
//!
//! An operation returns once it is on disk. Changes that arrive while the disk is busy share the next
//! transaction and its flush.

mod change;
mod read;
mod schema;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::item::{ItemDetails, ItemFilter, ItemId, NewItem, QueueSummary, QueuedItem, StoredHead};
use super::options::{DeferOptions, millis};
use super::queue::{Completion, QueueError, Requeue, Result, ReviveSelection, StartedAttempt};
use crate::background::{BackgroundWorker, catch_panic};
use crate::capacity_share::CapacityUsage;
use crate::clock;
use crate::worker::{JobReceiver, Worker, WorkerError};
use change::{ChangeError, ChangeOutcome, QueueBounds, QueueChange};

/// The maximum number of queued jobs; further ones are refused.
const MAX_JOBS: usize = 1024;
/// The maximum number of changes in one transaction.
const MAX_BATCH: usize = 128;
/// The maximum number of recent attempts to recover.
const MAX_ATTEMPTS: usize = 10_000;

/// A handle of the thread that owns the database. Clones share the thread.
#[derive(Clone, Debug)]
pub(crate) struct DiskQueue(Arc<Worker<DiskJob>>);

enum DiskJob {
    Change(QueueChange, oneshot::Sender<Result<ChangeOutcome>>),
    Read(Box<dyn FnOnce(&Connection) + Send>),
}

/// The requests found when the database is opened.
#[derive(Debug, Default)]
pub(crate) struct RecoveredItems {
    /// The queued requests, in order.
    pub(crate) queued: Vec<QueuedItem>,
    /// The recent attempts with their times, newest first.
    pub(crate) attempts: Vec<(i64, StoredHead)>,
}

/// The state of the database thread.
struct DiskWorker {
    connection: Connection,
    bounds: QueueBounds,
    usage: CapacityUsage,
}

impl DiskQueue {
    /// Opens the database in a folder; a damaged one is moved away. Blocks the thread.
    pub(crate) fn open(
        folder: &Path,
        options: &DeferOptions,
    ) -> Result<(DiskQueue, RecoveredItems), String> {
        crate::disk::create_private_folder(folder).map_err(|error| error.to_string())?;
        let path = folder.join("deferred.db");
        // The bounds of the queue apply first. This one covers indexes, statuses and responses too.
        let max_size = options.bytes.saturating_mul(2).saturating_add(64 << 20);
        let connection = match schema::DEFERRED.open(&path, max_size) {
            Err(error) if error.is_corrupt => {
                quarantine(&path)?;
                schema::DEFERRED.open(&path, max_size)
            }
            opened => opened,
        };
        let connection =
            connection.map_err(|error| format!("{}: {}", path.display(), error.reason))?;
        let (keep_ms, keep_dead_ms) = (millis(options.keep), millis(options.keep_dead));
        let bounds = QueueBounds { capacity: options.capacity(), keep_ms, keep_dead_ms };
        DiskQueue::start(connection, bounds).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn start(
        connection: Connection,
        bounds: QueueBounds,
    ) -> Result<(DiskQueue, RecoveredItems), String> {
        let (recovered, usage) =
            recover(&connection, &bounds).map_err(|error| error.to_string())?;
        let mut worker = DiskWorker { connection, bounds, usage };
        let work = move |jobs: JobReceiver<DiskJob>| worker.work(&jobs);
        let thread = Worker::start("tollgate-deferred", MAX_JOBS, work);
        Ok((DiskQueue(Arc::new(thread.map_err(|error| error.to_string())?)), recovered))
    }

    /// Closes the database, even if other handles exist. Blocks the thread.
    ///
    /// Returns `false` if the queued operations are not done within `patience`.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        self.0.stop(patience)
    }

    /// Returns how long the disk has not answered, if that is too long.
    pub(super) fn stalled_for(&self) -> Option<Duration> {
        self.0.stalled_for()
    }

    async fn send<T>(&self, job: DiskJob, outcome: oneshot::Receiver<Result<T>>) -> Result<T> {
        let stopped = || QueueError::Unavailable("the server is shutting down".into());
        match self.0.send(job) {
            Ok(()) => {}
            Err(WorkerError::Full) => {
                return Err(QueueError::Unavailable(
                    "too many operations of the deferred queue wait for the disk".into(),
                ));
            }
            Err(WorkerError::Stopped) => return Err(stopped()),
        }
        let interrupted = || {
            let reason = "an internal error interrupted the operation on the deferred queue";
            QueueError::Unavailable(reason.into())
        };
        outcome.await.unwrap_or_else(|_| Err(interrupted()))
    }

    async fn change(&self, change: QueueChange) -> Result<ChangeOutcome> {
        let (sender, outcome) = oneshot::channel();
        self.send(DiskJob::Change(change, sender), outcome).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, outcome) = oneshot::channel();
        let job = move |connection: &Connection| {
            drop(sender.send(read(connection).map_err(|error| queue_error(&error))));
        };
        self.send(DiskJob::Read(Box::new(job)), outcome).await
    }

    pub(super) async fn add(&self, item: NewItem) -> Result<u64> {
        match self.change(QueueChange::Add(Box::new(item))).await? {
            ChangeOutcome::Added(seq) => Ok(seq),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn begin(&self, id: ItemId, now_ms: i64) -> Result<Option<StartedAttempt>> {
        match self.change(QueueChange::Begin(id, now_ms)).await? {
            ChangeOutcome::StartedAttempt(started) => Ok(Some(*started)),
            ChangeOutcome::Nothing => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn requeue(&self, id: ItemId, requeue: Requeue, now_ms: i64) -> Result<()> {
        self.change(QueueChange::Requeue(id, requeue, now_ms)).await.map(drop)
    }

    pub(super) async fn complete(
        &self,
        id: ItemId,
        completion: Completion,
        now_ms: i64,
    ) -> Result<()> {
        self.change(QueueChange::Complete(id, completion, now_ms)).await.map(drop)
    }

    pub(super) async fn cancel(&self, id: ItemId, now_ms: i64) -> Result<bool> {
        let changed = self.change(QueueChange::Cancel(id, now_ms)).await?;
        Ok(matches!(changed, ChangeOutcome::Done))
    }

    pub(super) async fn revive(
        &self,
        selection: ReviveSelection,
        now_ms: i64,
    ) -> Result<(Vec<QueuedItem>, usize)> {
        match self.change(QueueChange::Revive(selection, now_ms)).await? {
            ChangeOutcome::Revived(items) => {
                let count = items.len();
                Ok((items, count))
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn sweep(&self, now_ms: i64) -> Result<()> {
        self.change(QueueChange::Sweep(now_ms)).await.map(drop)
    }

    pub(super) async fn head(&self, id: ItemId) -> Result<Option<StoredHead>> {
        self.read(move |connection| read::one_head(connection, id)).await
    }

    pub(super) async fn details(&self, id: ItemId) -> Result<Option<ItemDetails>> {
        self.read(move |connection| read::details(connection, id)).await
    }

    pub(super) async fn list(&self, filter: ItemFilter) -> Result<Vec<ItemDetails>> {
        self.read(move |connection| read::list(connection, &filter)).await
    }

    pub(super) async fn summary(&self) -> Result<QueueSummary> {
        self.read(read::summary).await
    }
}

/// Queues requests again that were in flight when the last process ended, and removes those that
/// expired meanwhile.
fn recover(
    connection: &Connection,
    bounds: &QueueBounds,
) -> rusqlite::Result<(RecoveredItems, CapacityUsage)> {
    connection.execute("UPDATE items SET state = 'queued' WHERE state = 'sending'", [])?;
    let now_ms = clock::unix_ms();
    let attempts = read::attempts(connection, now_ms.saturating_sub(bounds.keep_ms), MAX_ATTEMPTS)?;
    let mut usage = change::usage(connection)?;
    change::sweep(connection, now_ms, bounds, &mut usage)?;
    Ok((RecoveredItems { queued: read::all_queued(connection)?, attempts }, usage))
}

/// Moves a damaged database and its journal files away.
fn quarantine(path: &Path) -> Result<(), String> {
    let moved_to = path.with_extension("damaged");
    std::fs::rename(path, &moved_to)
        .map_err(|error| format!("{} is damaged and cannot be moved: {error}", path.display()))?;
    for suffix in ["-wal", "-shm"] {
        let journal = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            name
        };
        let _ = std::fs::rename(journal(path), journal(&moved_to));
    }
    tracing::error!(
        moved_to = %moved_to.display(),
        "the database of deferred requests is damaged; it was moved away, its requests are not sent, \
         and a new database is created"
    );
    Ok(())
}

/// Runs a job. After a panic its callers get an error, and the next job runs: a transaction that was
/// interrupted is rolled back, and the usage is updated only after a commit.
fn run_job(job: impl FnOnce()) {
    let _ = catch_panic(BackgroundWorker::DeferredDatabase, job);
}

impl DiskWorker {
    fn work(&mut self, jobs: &JobReceiver<DiskJob>) {
        let mut next = jobs.recv().ok();
        while let Some(job) = next.take() {
            match job {
                DiskJob::Read(read) => run_job(|| read(&self.connection)),
                DiskJob::Change(change, sender) => {
                    let mut batch = vec![(change, sender)];
                    while batch.len() < MAX_BATCH {
                        match jobs.try_recv() {
                            Ok(DiskJob::Change(change, sender)) => batch.push((change, sender)),
                            Ok(read) => {
                                next = Some(read);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    run_job(|| self.change_all(batch));
                }
            }
            if next.is_none() {
                next = jobs.recv().ok();
            }
        }
    }

    /// Makes changes in one transaction. If that fails, each gets its own, so that one failure does not
    /// affect the others.
    fn change_all(&mut self, changes: Vec<(QueueChange, oneshot::Sender<Result<ChangeOutcome>>)>) {
        let (changes, senders): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let outcomes = match self.transact(&changes) {
            Ok(outcomes) => outcomes,
            Err(error) if changes.len() == 1 => vec![Err(queue_error(&error))],
            Err(_) => {
                let apply_alone = |change| {
                    let outcomes = self.transact(std::slice::from_ref(change));
                    outcomes.map_or_else(|error| Err(queue_error(&error)), |mut all| all.remove(0))
                };
                changes.iter().map(apply_alone).collect()
            }
        };
        for (outcome, sender) in outcomes.into_iter().zip(senders) {
            let _ = sender.send(outcome);
        }
    }

    fn transact(
        &mut self,
        changes: &[QueueChange],
    ) -> rusqlite::Result<Vec<Result<ChangeOutcome>>> {
        // A transaction that reads first and writes later fails at once if another process writes:
        // SQLite waits only before the first lock.
        let immediate = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(immediate)?;
        let mut usage = self.usage;
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(match change::apply(&transaction, change, &self.bounds, &mut usage) {
                Ok(changed) => Ok(changed),
                Err(ChangeError::Full(reason)) => Err(QueueError::Full(reason)),
                Err(ChangeError::Failed(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        self.usage = usage;
        Ok(outcomes)
    }
}

/// Converts a database error into an error of the queue.
fn queue_error(error: &rusqlite::Error) -> QueueError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => QueueError::Full("the disk is full".into()),
        _ => QueueError::Unavailable(format!("the database of deferred requests failed: {error}")),
    }
}

fn unexpected(changed: &ChangeOutcome) -> QueueError {
    QueueError::Unavailable(format!(
        "unexpected outcome of a change in the deferred queue: {changed:?}"
    ))
}

#[cfg(test)]
impl DiskQueue {
    /// Limits the size of the database.
    pub(super) async fn limit_pages(&self, pages: i64) -> Result<()> {
        let set = move |connection: &Connection| {
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
        };
        self.read(set).await
    }
}
