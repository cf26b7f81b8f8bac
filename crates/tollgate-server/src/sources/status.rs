//! The status of a followed source.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::{SourceError, set::RulesUpdate};
use crate::clock;

/// The status of a followed source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceStatus {
    /// The path or the URL.
    pub origin: String,
    /// The version of the active rules.
    pub version: String,
    /// Whether the rules come from the saved copy, because the source has not answered yet.
    pub from_copy: bool,
    /// The number of times new rules became active.
    pub reloads: u64,
    /// The number of reads of the source.
    pub reads: u64,
    /// The number of failed reads.
    pub failures: u64,
    /// The error of the last read, if it failed.
    pub last_error: Option<String>,
    /// The time of the last successful read.
    pub last_success: Option<SystemTime>,
    /// The error of reading or writing the saved copy, if any.
    pub copy_error: Option<String>,
}

/// A status shared between threads.
#[derive(Clone, Debug)]
pub(super) struct SharedStatus {
    inner: Arc<(Mutex<SourceStatus>, Condvar)>,
}

impl SharedStatus {
    pub(super) fn new(status: SourceStatus) -> SharedStatus {
        SharedStatus { inner: Arc::new((Mutex::new(status), Condvar::new())) }
    }

    pub(super) fn get(&self) -> SourceStatus {
        self.inner.0.lock().clone()
    }

    pub(super) fn wait_until(
        &self,
        timeout: Duration,
        holds: impl Fn(&SourceStatus) -> bool,
    ) -> bool {
        let (status, changed) = &*self.inner;
        let mut status = status.lock();
        !changed.wait_while_for(&mut status, |status| !holds(status), timeout).timed_out()
    }

    /// Records the outcome of a read and logs changes.
    pub(super) fn record(&self, outcome: &Result<Option<RulesUpdate>, SourceError>) {
        let (status, changed) = &*self.inner;
        let mut status = status.lock();
        status.reads += 1;
        match outcome {
            Ok(update) => {
                if let Some(update) = update {
                    status.reloads += 1;
                    status.version = update.version.clone();
                    let warnings = update.rules.warnings().len();
                    let (origin, version) = (&*status.origin, &*status.version);
                    tracing::info!(origin, version, warnings, "activated new rules");
                } else if status.last_error.is_some() {
                    tracing::info!(
                        origin = &*status.origin,
                        "the origin of the rules has recovered"
                    );
                }
                status.from_copy = false;
                status.last_error = None;
                status.last_success = Some(clock::now());
            }
            Err(error) => {
                status.failures += 1;
                let error = error.to_string();
                // A repeated error is counted but not logged again.
                if status.last_error.as_ref() != Some(&error) {
                    let (origin, version) = (&*status.origin, &*status.version);
                    tracing::error!(origin, version, %error, "cannot load new rules; the previous rules stay active");
                }
                status.last_error = Some(error);
            }
        }
        drop(status);
        changed.notify_all();
    }

    pub(super) fn record_copy(&self, outcome: Result<(), String>) {
        let mut status = self.inner.0.lock();
        if let Err(error) = &outcome {
            tracing::warn!(origin = &*status.origin, %error, "cannot save a copy of the rules");
        }
        status.copy_error = outcome.err();
    }
}
