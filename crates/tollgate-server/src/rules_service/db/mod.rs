//! The database and the one thread that talks to it.

pub(super) mod audit;
pub(super) mod files;
pub(super) mod lists;
pub(super) mod overrides;
mod schema;

pub(super) use schema::{revision, set_revision};

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};
use tollgate::rules::{Data, Rules};

use super::ServiceError;
use super::problem::{Problem, Result};
use crate::bundle::{Bundle, BundleError, RulesFile};

/// Requests that may wait for the thread; more are told to come back.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Keeper) + Send>;

/// A way to the thread that has the database. Clones lead to the same one.
#[derive(Clone, Debug)]
pub(super) struct Db {
    thread: Arc<Thread>,
    published: watch::Receiver<Arc<Published>>,
}

#[derive(Debug)]
struct Thread {
    /// Empty once the thread is told to end.
    jobs: parking_lot::Mutex<Option<SyncSender<Job>>>,
    handle: Option<JoinHandle<()>>,
}

/// What limiters fetch: the last revision, ready to be sent.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) revision: u64,
    pub(super) etag: String,
    pub(super) body: Bytes,
    /// Why it cannot be used, if so: only after an upgrade that reads rules more strictly.
    pub(super) wrong: Option<String>,
}

/// What the thread has.
pub(super) struct Keeper {
    pub(super) connection: Connection,
    pub(super) checker: Checker,
    pub(super) publisher: Publisher,
    /// Held as long as the thread lives: two services would not see each other's changes.
    _lock: File,
}

/// Reads bundles as a limiter would.
#[derive(Default)]
pub(super) struct Checker {
    /// The files as they were last read: data changes more often than they do.
    files: Option<(String, Rules)>,
}

/// Tells whoever waits for it what there is now.
pub(super) struct Publisher(watch::Sender<Arc<Published>>);

impl Db {
    pub(super) fn open(folder: &Path, max_size: u64) -> Result<Db, ServiceError> {
        let lock = lock(folder)?;
        let path = folder.join("rules.db");
        let wrong = |why: String| ServiceError::Database { path: path.clone(), why };
        let connection = schema::open(&path, max_size).map_err(wrong)?;
        let bundle = load(&connection).map_err(|error| wrong(error.to_string()))?;
        let encoded = publishable(&bundle, bundle.rules().err().map(|error| error.to_string()))
            .map_err(|problem| wrong(problem.to_string()))?;
        if let Some(error) = &encoded.wrong {
            tracing::error!(%error, "the stored rules are wrong for this version of tollgate");
        }
        let (sender, published) = watch::channel(Arc::new(encoded));
        let mut keeper = Keeper {
            connection,
            checker: Checker::default(),
            publisher: Publisher(sender),
            _lock: lock,
        };
        let (jobs, waiting) = mpsc::sync_channel::<Job>(QUEUE);
        let body = move || waiting.iter().for_each(|job| job(&mut keeper));
        let handle = thread::Builder::new().name("tollgate-rules-db".into()).spawn(body);
        let handle = handle.map_err(|error| wrong(error.to_string()))?;
        let jobs = parking_lot::Mutex::new(Some(jobs));
        Ok(Db { thread: Arc::new(Thread { jobs, handle: Some(handle) }), published })
    }

    pub(super) fn published(&self) -> watch::Receiver<Arc<Published>> {
        self.published.clone()
    }

    /// Has the thread do something, and waits for it without blocking.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Keeper) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.send(job)?.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The same, blocking.
    pub(super) fn call_now<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Keeper) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let answer = self.send(job)?;
        // The answer may be awaited on any thread but one that drives a runtime: take another.
        let waiting = thread::spawn(move || answer.blocking_recv());
        waiting.join().ok().and_then(std::result::Result::ok).unwrap_or_else(|| Err(gone()))
    }

    fn send<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Keeper) -> Result<T> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |keeper| drop(sender.send(job(keeper))));
        match self.thread.jobs.lock().as_ref().ok_or_else(gone)?.try_send(job) {
            Ok(()) => Ok(answer),
            Err(TrySendError::Full(_)) => Err(Problem::busy("too many requests are waiting")),
            Err(TrySendError::Disconnected(_)) => Err(gone()),
        }
    }
}

/// The thread has ended: only while the service stops, or after a panic.
fn gone() -> Problem {
    Problem::busy("the rules service is stopping")
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs.lock().take();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
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

/// Everything as it stands now.
pub(super) fn load(connection: &Connection) -> rusqlite::Result<Bundle> {
    let files = files::all_current(connection)?;
    let files = files.into_iter().map(|file| RulesFile { name: file.name, text: file.text });
    let overrides = overrides::all(connection)?.into_iter().map(|stored| stored.what).collect();
    let lists = lists::all(connection)?.into_iter().map(|stored| stored.what).collect();
    let revision = schema::revision(connection)?;
    Ok(Bundle::new(revision, files.collect(), Data { overrides, lists, ..Data::default() }))
}

/// Ready to be sent, if it is not more than a limiter accepts.
pub(super) fn publishable(bundle: &Bundle, wrong: Option<String>) -> Result<Published> {
    let internal = |error: serde_json::Error| Problem::bad_request(error.to_string());
    let encoded = bundle.encode().map_err(internal)?;
    if encoded.bytes.len() > super::MAX_BUNDLE {
        let status = hyper::StatusCode::PAYLOAD_TOO_LARGE;
        let detail = "nothing was changed: all rules, overrides and lists together are larger \
                      than a limiter accepts";
        return Err(Problem::new(status, "too-large", detail));
    }
    let etag = format!("\"{}\"", encoded.version);
    Ok(Published { revision: bundle.revision, etag, body: encoded.bytes, wrong })
}

impl Checker {
    /// Reads a bundle; the files only if they changed.
    pub(super) fn check(&mut self, bundle: &Bundle) -> Result<Rules> {
        let digest = bundle.digest_of_files();
        let files = match &self.files {
            Some((known, files)) if *known == digest => files.clone(),
            _ => bundle.read_files().map_err(BundleError::from)?,
        };
        let rules = bundle.with_data(&files)?;
        self.files = Some((digest, files));
        Ok(rules)
    }
}

impl Publisher {
    pub(super) fn publish(&self, published: Published) {
        self.0.send_replace(Arc::new(published));
    }
}
