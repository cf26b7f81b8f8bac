//! The handle of a thread that follows a source.

use std::fmt;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::status::{Shared, Status};

/// Follows a source of rules until it is dropped.
pub struct Follower {
    shared: Shared,
    wake: Box<dyn Fn(Wake) + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Look,
    Stop,
}

impl Follower {
    /// Starts the thread. One that cannot be started is reported like a source that fails.
    pub(super) fn start(
        shared: Shared,
        wake: impl Fn(Wake) + Send + Sync + 'static,
        body: impl FnOnce() + Send + 'static,
    ) -> Follower {
        let thread = match thread::Builder::new().name("tollgate-rules".into()).spawn(body) {
            Ok(thread) => Some(thread),
            Err(error) => {
                let origin = shared.get().origin;
                shared.record(&Err(super::SourceError::Thread { origin, error }));
                None
            }
        };
        Follower { shared, wake: Box::new(wake), thread }
    }

    /// How it goes.
    pub fn status(&self) -> Status {
        self.shared.get()
    }

    /// Looks at the source now instead of at the next turn.
    pub fn refresh(&self) {
        (self.wake)(Wake::Look);
    }

    /// Waits until something is true of the status; `false` if it is not in time.
    pub fn wait_until(&self, timeout: Duration, holds: impl Fn(&Status) -> bool) -> bool {
        self.shared.wait_until(timeout, holds)
    }

    /// Waits until a version is in force; `false` if it is not in time.
    pub fn wait_for(&self, version: &str, timeout: Duration) -> bool {
        self.wait_until(timeout, |status| status.version == version)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        (self.wake)(Wake::Stop);
        // A target that owns its own follower would wait for itself.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("status", &self.status()).finish_non_exhaustive()
    }
}
