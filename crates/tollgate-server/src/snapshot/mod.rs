//! Snapshots of the memory store, so that counters survive a crash or a restart.
//!
//! One thread writes a snapshot every interval: the counters, and what the server has besides them
//! (open reservations, ladder bans, the limits that are active). Decisions never wait for it. A new
//! snapshot replaces the last one only when it is complete and on the disk, so a kill at any moment
//! leaves the last one intact.

mod file;
mod pace;
mod saved_server;
mod status;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{Clock, MemoryStore};

pub(crate) use self::saved_server::SavedServer;
#[cfg(any(test, fuzzing))]
pub use self::saved_server::fuzz_attachment;
pub(crate) use self::status::SnapshotStatus;

use self::file::SnapshotFile;
use self::writer::SnapshotWriter;
use crate::config::{Config, StoreChoice};
use crate::decisions::DecisionService;
use crate::store::{AnyStore, OpenedStore};

/// The maximum time for the last snapshot when the server stops.
const LAST_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the memory store of a server and fills it from the last snapshot. Blocks the thread.
///
/// A snapshot that cannot be used is moved aside, and the store starts empty.
pub(crate) fn open_store(config: &Config, clock: &Clock) -> OpenedStore {
    let new_store = || {
        let mut store = MemoryStore::new().clock(clock.clone());
        if let Some(max_keys) = config.max_keys {
            store = store.max_keys(max_keys);
        }
        if let Some(max_memory) = config.max_memory {
            store = store.max_memory(max_memory);
        }
        store
    };
    let restored = settings(config).and_then(|(file, _)| file.restore(new_store()));
    match restored {
        Some(restored) => OpenedStore {
            saved: SavedServer::parse(&restored.attachment),
            store: AnyStore::Memory(restored.store),
            clock: restored.clock,
            counted_until_ms: (restored.saved_wall.as_nanos() / 1_000_000) as i64,
        },
        None => OpenedStore {
            saved: SavedServer::default(),
            store: AnyStore::Memory(new_store()),
            clock: clock.clone(),
            counted_until_ms: 0,
        },
    }
}

/// Returns the file and the interval of snapshots, if they are on.
fn settings(config: &Config) -> Option<(SnapshotFile, Duration)> {
    let is_memory = matches!(config.store, StoreChoice::Memory);
    let folder: &PathBuf = config.data.as_ref().filter(|_| is_memory)?;
    Some((SnapshotFile::in_folder(folder), config.snapshot?))
}

/// The thread that writes snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    status: Arc<SnapshotStatus>,
    /// A message stops the thread after a last snapshot. Dropping the sender stops it at once.
    stop: Mutex<Option<Sender<()>>>,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl Snapshots {
    /// Starts the thread; `None` if snapshots are off.
    pub(crate) fn start(config: &Config, decisions: &DecisionService) -> Option<Snapshots> {
        let (file, interval) = settings(config)?;
        let status = Arc::new(SnapshotStatus::new());
        let (stop, stopped) = mpsc::channel();
        let (ending, ended) = mpsc::channel();
        let mut writer = SnapshotWriter::new(file, decisions.clone(), status.clone());
        let run = move || {
            writer.run(interval, &stopped);
            drop(ending);
        };
        if let Err(error) = std::thread::Builder::new().name("snapshots".into()).spawn(run) {
            tracing::error!(%error, "cannot start the thread that writes snapshots");
            return None;
        }
        Some(Snapshots { status, stop: Mutex::new(Some(stop)), ended: Mutex::new(ended) })
    }

    pub(crate) fn status(&self) -> &SnapshotStatus {
        &self.status
    }

    /// Writes a last snapshot and stops, within a bounded time. Blocks the thread.
    pub(crate) fn stop(&self) {
        let Some(stop) = self.stop.lock().take() else { return };
        // If the thread has ended, there is nothing to wait for.
        let _ = stop.send(());
        if self.ended.lock().recv_timeout(LAST_SNAPSHOT_TIMEOUT)
            == Err(mpsc::RecvTimeoutError::Timeout)
        {
            tracing::error!(
                "the last snapshot was not written within {LAST_SNAPSHOT_TIMEOUT:?}; the one before \
                 it stays"
            );
        }
    }
}
