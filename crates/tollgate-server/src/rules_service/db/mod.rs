//! The database and the one thread that talks to it.

pub(super) mod audit;
pub(super) mod elements;
pub(super) mod files;
pub(super) mod lists;
mod schema;

pub(super) use schema::{revision, set_revision};

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;

use bytes::Bytes;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};
use tollgate::rules::{BanData, Data, ModeData, OverrideData, Rules, Source};

use super::ServiceError;
use super::checker::Checker;
use super::problem::{Problem, Result};
use crate::bundle::{Bundle, RulesFile};
use crate::worker::{Undone, Worker};

/// Requests that may wait for the thread; more are told to come back.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Keeper) + Send>;

/// A way to the thread that has the database. Clones lead to the same one.
#[derive(Clone, Debug)]
pub(super) struct Db {
    thread: Arc<Worker<Job>>,
    published: watch::Receiver<Arc<Published>>,
}

/// What limiters fetch: the last revision, ready to be sent.
#[derive(Debug)]
pub(super) struct Published {
    pub(super) revision: u64,
    pub(super) etag: String,
    pub(super) body: Bytes,
    /// Ready to decide with; none if they are wrong.
    pub(super) rules: Option<Rules>,
    /// Why it cannot be used, if so: only after an upgrade that reads rules more strictly.
    pub(super) wrong: Option<String>,
}

/// What the thread has.
pub(super) struct Keeper {
    pub(super) connection: Connection,
    pub(super) checker: Checker,
    pub(super) publisher: Publisher,
    /// Held as long as the thread lives: two services would not see each other's changes.
    _lock: Option<File>,
}

/// Is given every new set of rules, before anybody is told that it is in force.
type Install = Box<dyn Fn(Rules) + Send>;

/// Tells whoever waits for it what there is now.
pub(super) struct Publisher {
    sender: watch::Sender<Arc<Published>>,
    pub(super) install: Option<Install>,
}

impl Db {
    /// The database of a folder, or one in memory.
    pub(super) fn open(folder: Option<&Path>, max_size: u64) -> Result<Db, ServiceError> {
        let lock = folder.map(lock).transpose()?;
        let path = folder.map_or_else(|| "in memory".into(), |folder| folder.join("rules.db"));
        let wrong = |why: String| ServiceError::Database { path: path.clone(), why };
        let connection = match folder {
            Some(_) => schema::open(&path, max_size),
            None => schema::in_memory(max_size),
        };
        let connection = connection.map_err(wrong)?;
        let bundle = load(&connection, None).map_err(|error| wrong(error.to_string()))?;
        let encoded = publishable(&bundle, bundle.rules().map_err(|error| error.to_string()))
            .map_err(|problem| wrong(problem.to_string()))?;
        let (sender, published) = watch::channel(Arc::new(encoded));
        let mut keeper = Keeper {
            connection,
            checker: Checker::default(),
            publisher: Publisher { sender, install: None },
            _lock: lock,
        };
        let work = move |waiting: Receiver<Job>| waiting.iter().for_each(|job| job(&mut keeper));
        let thread = Worker::start("tollgate-rules-db", QUEUE, work);
        let thread = thread.map_err(|error| wrong(error.to_string()))?;
        Ok(Db { thread: Arc::new(thread), published })
    }

    /// Lets go of the database, whoever still has a way to it.
    pub(super) fn close(&self) {
        self.thread.end();
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
        match self.thread.send(job) {
            Ok(()) => Ok(answer),
            Err(Undone::Full) => Err(Problem::busy("too many requests are waiting")),
            Err(Undone::Gone) => Err(gone()),
        }
    }
}

/// The thread has ended: only while the service stops, or after a panic.
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
pub(super) fn load(connection: &Connection, outside: Option<&Rules>) -> rusqlite::Result<Bundle> {
    let files = match outside {
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
    fn what<T>(stored: elements::Stored<T>) -> T {
        stored.what
    }
    let overrides = elements::all::<OverrideData>(connection)?.into_iter().map(what).collect();
    let bans = elements::all::<BanData>(connection)?.into_iter().map(what).collect();
    let modes = elements::all::<ModeData>(connection)?.into_iter().map(what).collect();
    let lists = lists::all(connection)?.into_iter().map(|stored| stored.what).collect();
    let revision = schema::revision(connection)?;
    Ok(Bundle::new(revision, files, Data { overrides, lists, bans, modes }))
}

/// Ready to be sent, if it is not more than a limiter accepts.
pub(super) fn publishable(bundle: &Bundle, rules: Result<Rules, String>) -> Result<Published> {
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
    let (rules, wrong) = match rules {
        Ok(rules) => (Some(rules), None),
        Err(wrong) => (None, Some(wrong)),
    };
    Ok(Published { revision, etag, body, rules, wrong })
}

impl Publisher {
    /// Puts rules in force and tells everybody.
    pub(super) fn publish(&self, published: Published) {
        if let (Some(install), Some(rules)) = (&self.install, &published.rules) {
            install(rules.clone());
        }
        self.sender.send_replace(Arc::new(published));
    }
}
