//! The rules database and the thread that owns it.

pub(super) mod audit;
pub(super) mod elements;
pub(super) mod files;
pub(super) mod lists;
mod schema;

pub(super) use schema::{revision, set_revision};

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};
use tollgate_rules::{BanData, Data, ModeData, OverrideData, Rules, Source};

use super::ServiceError;
use super::checker::{BundleChecker, SharedLeftOut};
use crate::background::{BackgroundWorker, catch_panic};
use crate::bundle::{Bundle, RulesFile};
use crate::problem::{Problem, Result};
use crate::worker::{JobReceiver, Worker, WorkerError};

/// The maximum number of queued requests; further requests get 503.
const QUEUE: usize = 256;

type DbJob = Box<dyn FnOnce(&mut DbState) + Send>;

/// A handle of the thread that owns the database. Clones share the thread.
#[derive(Clone, Debug)]
pub(super) struct RulesDb {
    thread: Arc<Worker<DbJob>>,
    published: watch::Receiver<Arc<PublishedBundle>>,
    left_out: SharedLeftOut,
}

/// The newest bundle, encoded for limiters.
#[derive(Debug)]
pub(super) struct PublishedBundle {
    pub(super) revision: u64,
    pub(super) etag: String,
    pub(super) body: Bytes,
    /// The compiled rules; `None` if they are invalid.
    pub(super) rules: Option<Rules>,
    /// The reason why the rules are invalid, which happens only after an upgrade of tollgate.
    pub(super) invalid: Option<String>,
}

/// The state of the database thread.
pub(super) struct DbState {
    pub(super) connection: Connection,
    pub(super) checker: BundleChecker,
    pub(super) publisher: BundlePublisher,
    /// A lock on the folder, because two services would not see each other's changes.
    _lock: Option<File>,
}

/// A function that activates new rules, called before the change is confirmed.
type ActivateRules = Box<dyn Fn(Rules) + Send>;

/// The sender of new bundles to waiting limiters.
pub(super) struct BundlePublisher {
    sender: watch::Sender<Arc<PublishedBundle>>,
    pub(super) activate: Option<ActivateRules>,
}

impl RulesDb {
    /// Opens the database of a folder, or one in memory.
    pub(super) fn open(folder: Option<&Path>, max_size: u64) -> Result<RulesDb, ServiceError> {
        let lock = folder.map(lock).transpose()?;
        let path = folder.map_or_else(|| "in memory".into(), |folder| folder.join("rules.db"));
        let failed = |reason: String| ServiceError::Database { path: path.clone(), reason };
        let connection = match folder {
            Some(_) => schema::open(&path, max_size),
            None => schema::in_memory(max_size),
        };
        let connection = connection.map_err(failed)?;
        let bundle = load(&connection, None).map_err(|error| failed(error.to_string()))?;
        let encoded = publishable(&bundle, bundle.rules().map_err(|error| error.to_string()))
            .map_err(|problem| failed(problem.to_string()))?;
        let (sender, published) = watch::channel(Arc::new(encoded));
        let mut state = DbState {
            connection,
            checker: BundleChecker::default(),
            publisher: BundlePublisher { sender, activate: None },
            _lock: lock,
        };
        let left_out = state.checker.shared_left_out();
        let work = move |jobs: JobReceiver<DbJob>| {
            while let Ok(job) = jobs.recv() {
                // After a panic the caller gets an error, and the next job runs. A transaction that was
                // interrupted is rolled back, and rules become active only after a commit.
                let _ = catch_panic(BackgroundWorker::RulesDatabase, || job(&mut state));
            }
        };
        let thread = Worker::start("tollgate-rules-db", QUEUE, work);
        let thread = thread.map_err(|error| failed(error.to_string()))?;
        Ok(RulesDb { thread: Arc::new(thread), published, left_out })
    }

    /// Closes the database after the queued requests, even if other handles exist.
    ///
    /// Returns `false` if they are not done within `patience`.
    pub(super) fn close(&self, patience: Duration) -> bool {
        self.thread.stop(patience)
    }

    /// Returns how long the database has not answered, if that is too long.
    pub(super) fn stalled_for(&self) -> Option<Duration> {
        self.thread.stalled_for()
    }

    /// Returns the reasons why data is left out, without waiting for the database.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.left_out.lock().clone()
    }

    pub(super) fn published(&self) -> watch::Receiver<Arc<PublishedBundle>> {
        self.published.clone()
    }

    /// Runs a job on the database thread.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut DbState) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.send(job)?.await.unwrap_or_else(|_| Err(interrupted()))
    }

    /// Runs a job on the database thread and blocks until it is done.
    pub(super) fn blocking_call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut DbState) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let result = self.send(job)?;
        // A thread that drives a runtime must not block on the channel, so that another one waits.
        let waiting = thread::spawn(move || result.blocking_recv());
        waiting.join().ok().and_then(std::result::Result::ok).unwrap_or_else(|| Err(interrupted()))
    }

    fn send<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut DbState) -> Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        let (sender, result) = oneshot::channel();
        let job: DbJob = Box::new(move |state| drop(sender.send(job(state))));
        match self.thread.send(job) {
            Ok(()) => Ok(result),
            Err(WorkerError::Full) => Err(Problem::busy("too many requests are waiting")),
            Err(WorkerError::Stopped) => Err(gone()),
        }
    }
}

/// Returns the error of a job that was not done to its end.
fn interrupted() -> Problem {
    Problem::busy("an internal error interrupted the operation, or the rules service is stopping")
}

/// Returns the error of a thread that has ended because the service stops.
fn gone() -> Problem {
    Problem::busy("the rules service is stopping")
}

fn lock(folder: &Path) -> Result<File, ServiceError> {
    let path = folder.join("lock");
    let failed = |error| ServiceError::Folder { path: path.clone(), error };
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServiceError::InUse(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Everything as it stands now; with the files of `outside`, if that is where they come from.
pub(super) fn load(connection: &Connection, external: Option<&Rules>) -> rusqlite::Result<Bundle> {
    let files = match external {
        Some(rules) => {
            let file = |source: &Source| RulesFile {
                name: super::short_name(source),
                text: source.text.clone(),
            };
            rules.sources().iter().map(file).collect()
        }
        None => {
            let files = files::all_current(connection)?.into_iter();
            files.map(|file| RulesFile { name: file.name, text: file.text }).collect()
        }
    };
    fn data<T>(stored: elements::StoredElement<T>) -> T {
        stored.data
    }
    let overrides = elements::all::<OverrideData>(connection)?.into_iter().map(data).collect();
    let bans = elements::all::<BanData>(connection)?.into_iter().map(data).collect();
    let modes = elements::all::<ModeData>(connection)?.into_iter().map(data).collect();
    let lists = lists::all(connection)?.into_iter().map(|stored| stored.data).collect();
    let revision = schema::revision(connection)?;
    Ok(Bundle::new(revision, files, Data { overrides, lists, bans, modes }))
}

/// Encodes a bundle, unless it is larger than a limiter accepts.
pub(super) fn publishable(
    bundle: &Bundle,
    rules: Result<Rules, String>,
) -> Result<PublishedBundle> {
    let internal = |error: serde_json::Error| Problem::bad_request(error.to_string());
    let encoded = bundle.encode().map_err(internal)?;
    if encoded.bytes.len() > super::MAX_BUNDLE {
        let status = hyper::StatusCode::PAYLOAD_TOO_LARGE;
        let detail = "nothing was changed: all rules, overrides and lists together are larger \
                      than a limiter accepts";
        return Err(Problem::new(status, "too-large", detail));
    }
    let etag = format!("\"{}\"", encoded.version);
    let (revision, body) = (bundle.revision, encoded.bytes);
    let (rules, invalid) = match rules {
        Ok(rules) => (Some(rules), None),
        Err(reason) => (None, Some(reason)),
    };
    Ok(PublishedBundle { revision, etag, body, rules, invalid })
}

impl BundlePublisher {
    /// Activates the rules and notifies waiting limiters.
    pub(super) fn publish(&self, published: PublishedBundle) {
        if let (Some(activate), Some(rules)) = (&self.activate, &published.rules) {
            activate(rules.clone());
        }
        self.sender.send_replace(Arc::new(published));
    }
}
