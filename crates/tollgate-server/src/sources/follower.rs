//! The handle of the thread that follows a source of rules.

use std::fmt;
use std::time::Duration;

use super::status::{SharedStatus, SourceStatus};
use crate::worker_thread::{STOP_PATIENCE, WorkerThread};

/// A handle that follows a source of rules until it is dropped.
pub struct Follower {
    status: SharedStatus,
    wake: Box<dyn Fn(WakeReason) + Send + Sync>,
    thread: Option<WorkerThread>,
}

/// The reason why the thread is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeReason {
    Refresh,
    Stop,
}

impl Follower {
    /// Starts the thread. A failure to start is recorded like a failing source.
    pub(super) fn start(
        status: SharedStatus,
        wake: impl Fn(WakeReason) + Send + Sync + 'static,
        body: impl FnOnce() + Send + 'static,
    ) -> Follower {
        let thread = match WorkerThread::start("tollgate-rules", body) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let origin = status.get().origin;
                status.record(&Err(super::SourceError::Thread { origin, error }));
                None
            }
        };
        Follower { status, wake: Box::new(wake), thread }
    }

    /// Returns the current status.
    pub fn status(&self) -> SourceStatus {
        self.status.get()
    }

    /// Reads the source now instead of after the interval.
    pub fn refresh(&self) {
        (self.wake)(WakeReason::Refresh);
    }

    /// Stops the thread; returns `false` if it has not ended within `patience`.
    pub(crate) fn stop(&mut self, patience: Duration) -> bool {
        (self.wake)(WakeReason::Stop);
        // A target that owns its follower drops it on this thread, which does not wait for itself.
        self.thread.take().is_none_or(|mut thread| thread.join_within(patience))
    }

    /// Waits until a condition holds for the status; returns `false` at the timeout.
    pub fn wait_until(&self, timeout: Duration, holds: impl Fn(&SourceStatus) -> bool) -> bool {
        self.status.wait_until(timeout, holds)
    }

    /// Waits until a version is active; returns `false` at the timeout.
    pub fn wait_for(&self, version: &str, timeout: Duration) -> bool {
        self.wait_until(timeout, |status| status.version == version)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop(STOP_PATIENCE);
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("status", &self.status()).finish_non_exhaustive()
    }
}
