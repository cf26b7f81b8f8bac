//! The loop that writes snapshots.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tollgate::MemoryStore;
use tollgate::snapshot::SnapshotDigest;

use super::file::{SnapshotFile, SnapshotLock};
use super::pace::pause_after;
use super::saved_server::SavedServer;
use super::status::SnapshotStatus;
use crate::background::{BackgroundWorker, catch_panic};
use crate::clock;
use crate::decisions::DecisionService;

/// Writes the snapshots of a server.
#[derive(Debug)]
pub(super) struct SnapshotWriter {
    file: SnapshotFile,
    decisions: DecisionService,
    status: Arc<SnapshotStatus>,
    /// Held while this process may write, so that servers with one data folder do not replace the
    /// snapshots of each other.
    lock: Option<SnapshotLock>,
    /// The content of the last snapshot that this process has written.
    digest: Option<SnapshotDigest>,
    last_error: Option<String>,
}

impl SnapshotWriter {
    pub(super) fn new(
        file: SnapshotFile,
        decisions: DecisionService,
        status: Arc<SnapshotStatus>,
    ) -> SnapshotWriter {
        SnapshotWriter { file, decisions, status, lock: None, digest: None, last_error: None }
    }

    /// Writes a snapshot every interval, and a last one on a message. Ends when the sender is dropped.
    pub(super) fn run(&mut self, interval: Duration, stopped: &Receiver<()>) {
        let mut pause = interval;
        loop {
            match stopped.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => pause = pause_after(self.write(), interval),
                Ok(()) => {
                    self.write();
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes a snapshot unless nothing has changed; returns how long that took.
    fn write(&mut self) -> Duration {
        let decisions = self.decisions.clone();
        let Some(store) = decisions.store().memory() else { return Duration::ZERO };
        let began = clock::monotonic_ms();
        let result = catch_panic(BackgroundWorker::Snapshots, || self.write_changes(store));
        let result = result.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        let took_ms = clock::monotonic_ms().saturating_sub(began);
        match result {
            Ok(written) => {
                self.status.record_current(began);
                if let Some(bytes) = written {
                    self.status.record_written(bytes, took_ms);
                }
                if self.last_error.take().is_some() {
                    tracing::info!(file = %self.file, "snapshots are written again");
                }
            }
            Err(error) => self.failed(&error),
        }
        Duration::from_millis(took_ms)
    }

    /// Writes a snapshot; returns its size, or `None` if the file has this content already.
    fn write_changes(&mut self, store: &MemoryStore) -> io::Result<Option<u64>> {
        if self.lock.is_none() {
            self.lock = Some(self.file.lock()?);
        }
        let attachment = SavedServer::attachment(&self.decisions);
        if let Some(digest) = &self.digest
            && store.matches_snapshot(&attachment, digest)
            && self.file.exists()
        {
            return Ok(None);
        }
        let (digest, bytes) = self.file.write(store, &attachment)?;
        self.digest = Some(digest);
        Ok(Some(bytes))
    }

    /// Records an error, and logs it unless the last snapshot failed for the same reason.
    fn failed(&mut self, error: &io::Error) {
        self.status.record_error();
        let reason = error.to_string();
        if self.last_error.as_ref() != Some(&reason) {
            tracing::error!(
                file = %self.file,
                error = %reason,
                "cannot write a snapshot; decisions go on, and a crash would lose the counts since \
                 the last one"
            );
            self.last_error = Some(reason);
        }
    }
}
