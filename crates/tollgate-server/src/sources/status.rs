//! How the following of a source goes, for people and metrics.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::{SourceError, set::Update};
use crate::clock;

/// How the following of a source goes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The path or the URL.
    pub origin: String,
    /// What is in force.
    pub version: String,
    /// Whether that is a copy from the disk, because the source has not answered yet.
    pub from_copy: bool,
    /// How many times new rules were installed.
    pub reloads: u64,
    /// How many times the source was looked at.
    pub looks: u64,
    /// How many of those failed.
    pub failures: u64,
    /// Why the last one failed, if it did.
    pub last_error: Option<String>,
    /// When the source was last known to agree with what is in force.
    pub last_success: Option<SystemTime>,
    /// Why the copy on the disk could not be written or was put aside, if so.
    pub copy_error: Option<String>,
}

/// A status that several threads look at.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    inner: Arc<(Mutex<Status>, Condvar)>,
}

impl Shared {
    pub(super) fn new(status: Status) -> Shared {
        Shared { inner: Arc::new((Mutex::new(status), Condvar::new())) }
    }

    pub(super) fn get(&self) -> Status {
        self.inner.0.lock().clone()
    }

    pub(super) fn wait_until(&self, timeout: Duration, held: impl Fn(&Status) -> bool) -> bool {
        let (status, changed) = &*self.inner;
        let mut status = status.lock();
        !changed.wait_while_for(&mut status, |status| !held(status), timeout).timed_out()
    }

    /// Writes down how a look at the source went; says so in the log where it matters.
    pub(super) fn record(&self, outcome: &Result<Option<Update>, SourceError>) {
        let (status, changed) = &*self.inner;
        let mut status = status.lock();
        status.looks += 1;
        match outcome {
            Ok(update) => {
                if let Some(update) = update {
                    status.reloads += 1;
                    status.version = update.version.clone();
                    let warnings = update.rules.warnings().len();
                    let (origin, version) = (&*status.origin, &*status.version);
                    tracing::info!(origin, version, warnings, "new rules are in force");
                } else if status.last_error.is_some() {
                    tracing::info!(origin = &*status.origin, "the source of rules is well again");
                }
                status.from_copy = false;
                status.last_error = None;
                status.last_success = Some(clock::now());
            }
            Err(error) => {
                status.failures += 1;
                let error = error.to_string();
                // The same trouble again is only counted, not repeated.
                if status.last_error.as_ref() != Some(&error) {
                    let (origin, version) = (&*status.origin, &*status.version);
                    tracing::error!(origin, version, %error, "the old rules go on");
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
            tracing::warn!(origin = &*status.origin, %error, "the copy of the rules is not kept");
        }
        status.copy_error = outcome.err();
    }
}
