//! Deferred requests on this node's disk: a database, and the one thread that talks to it.
//!
//! Nothing is answered before it is on the disk. What is asked for while the disk is busy is written
//! together afterwards: many requests share one flush.

mod change;
mod read;
mod schema;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::item::{Entry, Head, ItemId, NewItem, Summary, Waiting, Wanted};
use super::options::DeferOptions;
use super::queue::{Back, Begun, End, QueueError, Result, Which};
use crate::clock;
use crate::worker::{Undone, Worker};
use change::{Bounds, Change, Changed, Kept, Unchanged};

/// Jobs that may wait for the thread; more are told to come back.
const JOBS: usize = 1024;
/// Changes that are written together.
const TOGETHER: usize = 128;
/// How many attempts of the recent past matter.
const MOST_ATTEMPTS: usize = 10_000;

/// A way to the thread that has the database. Clones lead to the same one.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Worker<Job>>);

enum Job {
    Change(Change, oneshot::Sender<Result<Changed>>),
    Read(Box<dyn FnOnce(&Connection) + Send>),
}

/// What was kept when the database was opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Who waits, in order.
    pub(crate) waiting: Vec<Waiting>,
    /// What was sent lately, the last first, and when.
    pub(crate) attempts: Vec<(i64, Head)>,
}

/// What the thread has.
struct Keeper {
    connection: Connection,
    bounds: Bounds,
    kept: Kept,
}

impl Disk {
    /// Opens the database in a folder. What is damaged is put aside; what cannot be used otherwise
    /// comes back as a sentence. Blocks the thread.
    pub(crate) fn open(folder: &Path, options: &DeferOptions) -> Result<(Disk, Found), String> {
        crate::disk::private_folder(folder).map_err(|error| error.to_string())?;
        let path = folder.join("deferred.db");
        // The bounds below are met first; this is for what they do not see.
        let max_size = options.bytes.saturating_mul(2).saturating_add(64 << 20);
        let connection = match schema::DEFERRED.open(&path, max_size) {
            Err(unusable) if unusable.is_damaged => {
                put_aside(&path)?;
                schema::DEFERRED.open(&path, max_size)
            }
            opened => opened,
        };
        let connection =
            connection.map_err(|unusable| format!("{}: {}", path.display(), unusable.why))?;
        let keep_ms = i64::try_from(options.keep.as_millis()).unwrap_or(i64::MAX);
        let bounds = Bounds { count: options.count as u64, bytes: options.bytes, keep_ms };
        Disk::start(connection, bounds).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn start(connection: Connection, bounds: Bounds) -> Result<(Disk, Found), String> {
        let found = look(&connection, &bounds).map_err(|error| error.to_string())?;
        let kept = change::kept(&connection).map_err(|error| error.to_string())?;
        let mut keeper = Keeper { connection, bounds, kept };
        let work = move |waiting: Receiver<Job>| keeper.work(&waiting);
        let thread = Worker::start("tollgate-deferred", JOBS, work);
        Ok((Disk(Arc::new(thread.map_err(|error| error.to_string())?)), found))
    }

    /// Lets go of the database, whoever still has a way to it. Blocks the thread.
    pub(crate) fn close(&self) {
        self.0.end();
    }

    async fn send<T>(&self, job: Job, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        let gone = || QueueError::Trouble("the server is going down".into());
        match self.0.send(job) {
            Ok(()) => {}
            Err(Undone::Full) => {
                return Err(QueueError::Trouble("the disk cannot keep up".into()));
            }
            Err(Undone::Gone) => return Err(gone()),
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn change(&self, change: Change) -> Result<Changed> {
        let (sender, answer) = oneshot::channel();
        self.send(Job::Change(change, sender), answer).await
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        let job = move |connection: &Connection| {
            drop(sender.send(read(connection).map_err(|error| trouble(&error))));
        };
        self.send(Job::Read(Box::new(job)), answer).await
    }

    pub(super) async fn add(&self, item: NewItem) -> Result<u64> {
        match self.change(Change::Add(Box::new(item))).await? {
            Changed::Added(seq) => Ok(seq),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn begin(&self, id: ItemId, now_ms: i64) -> Result<Option<Begun>> {
        match self.change(Change::Begin(id, now_ms)).await? {
            Changed::Begun(begun) => Ok(Some(*begun)),
            Changed::Nothing => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn back(&self, id: ItemId, back: Back, now_ms: i64) -> Result<()> {
        self.change(Change::Back(id, back, now_ms)).await.map(drop)
    }

    pub(super) async fn end(&self, id: ItemId, end: End, now_ms: i64) -> Result<()> {
        self.change(Change::End(id, end, now_ms)).await.map(drop)
    }

    pub(super) async fn cancel(&self, id: ItemId, now_ms: i64) -> Result<bool> {
        let changed = self.change(Change::Cancel(id, now_ms)).await?;
        Ok(matches!(changed, Changed::Done))
    }

    pub(super) async fn revive(&self, which: Which, now_ms: i64) -> Result<(Vec<Waiting>, usize)> {
        match self.change(Change::Revive(which, now_ms)).await? {
            Changed::Revived(waiting) => {
                let count = waiting.len();
                Ok((waiting, count))
            }
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn sweep(&self, now_ms: i64) -> Result<()> {
        self.change(Change::Sweep(now_ms)).await.map(drop)
    }

    pub(super) async fn head(&self, id: ItemId) -> Result<Option<Head>> {
        self.read(move |connection| read::one_head(connection, id)).await
    }

    pub(super) async fn entry(&self, id: ItemId) -> Result<Option<Entry>> {
        self.read(move |connection| read::one_entry(connection, id)).await
    }

    pub(super) async fn list(&self, wanted: Wanted) -> Result<Vec<Entry>> {
        self.read(move |connection| read::list(connection, &wanted)).await
    }

    pub(super) async fn summary(&self) -> Result<Summary> {
        self.read(read::summary).await
    }
}

/// What was on its way when the last process ended may have arrived or not: it waits again.
fn look(connection: &Connection, bounds: &Bounds) -> rusqlite::Result<Found> {
    connection.execute("UPDATE items SET state = 'queued' WHERE state = 'sending'", [])?;
    let since_ms = clock::unix_ms() - bounds.keep_ms;
    Ok(Found {
        waiting: read::all_waiting(connection)?,
        attempts: read::attempts(connection, since_ms, MOST_ATTEMPTS)?,
    })
}

/// Moves a damaged database away, with what belongs to it.
fn put_aside(path: &Path) -> Result<(), String> {
    let aside = path.with_extension("damaged");
    std::fs::rename(path, &aside)
        .map_err(|error| format!("{} is damaged and cannot be moved: {error}", path.display()))?;
    for end in ["-wal", "-shm"] {
        let beside = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            name
        };
        let _ = std::fs::rename(beside(path), beside(&aside));
    }
    tracing::error!(
        aside = %aside.display(),
        "the database of deferred requests is damaged: it was moved away, what was in it is not \
         sent, and a new one begins"
    );
    Ok(())
}

impl Keeper {
    fn work(&mut self, jobs: &Receiver<Job>) {
        let mut next = jobs.recv().ok();
        while let Some(job) = next.take() {
            match job {
                Job::Read(read) => read(&self.connection),
                Job::Change(change, asked) => {
                    let mut together = vec![(change, asked)];
                    while together.len() < TOGETHER {
                        match jobs.try_recv() {
                            Ok(Job::Change(change, asked)) => together.push((change, asked)),
                            Ok(read) => {
                                next = Some(read);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.change_all(together);
                }
            }
            if next.is_none() {
                next = jobs.recv().ok();
            }
        }
    }

    /// Makes changes in one transaction; if that fails, each in its own, so that one that cannot be
    /// made does not take others with it.
    fn change_all(&mut self, changes: Vec<(Change, oneshot::Sender<Result<Changed>>)>) {
        let (changes, asked): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        let outcomes = match self.transact(&changes) {
            Ok(outcomes) => outcomes,
            Err(error) if changes.len() == 1 => vec![Err(trouble(&error))],
            Err(_) => {
                let one = |change| {
                    let alone = self.transact(std::slice::from_ref(change));
                    alone.map_or_else(|error| Err(trouble(&error)), |mut all| all.remove(0))
                };
                changes.iter().map(one).collect()
            }
        };
        for (outcome, asked) in outcomes.into_iter().zip(asked) {
            let _ = asked.send(outcome);
        }
    }

    fn transact(&mut self, changes: &[Change]) -> rusqlite::Result<Vec<Result<Changed>>> {
        let transaction = self.connection.transaction()?;
        let mut kept = self.kept;
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            outcomes.push(match change::apply(&transaction, change, &self.bounds, &mut kept) {
                Ok(changed) => Ok(changed),
                Err(Unchanged::Full(why)) => Err(QueueError::Full(why)),
                Err(Unchanged::Failed(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        self.kept = kept;
        Ok(outcomes)
    }
}

/// What is wrong, by what can be done about it.
fn trouble(error: &rusqlite::Error) -> QueueError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => QueueError::Full("the disk is full".into()),
        _ => QueueError::Trouble(format!("the disk does not take it: {error}")),
    }
}

fn unexpected(changed: &Changed) -> QueueError {
    QueueError::Trouble(format!("the database answered {changed:?}"))
}

#[cfg(test)]
impl Disk {
    /// Makes the disk as small as a test needs it.
    pub(super) async fn limit_pages(&self, pages: i64) -> Result<()> {
        let set = move |connection: &Connection| {
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
        };
        self.read(set).await
    }
}
