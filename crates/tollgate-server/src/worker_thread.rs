//! A thread whose end is awaited for a bounded time only.
//!
//! A thread that reads or writes a stalled disk may not end for minutes. A server that is told to stop
//! must not wait for as long, or it would never exit.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The maximum time that a server waits for a thread which does not end.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// A thread that is joined within a time limit, and left alone after it.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    /// `None` once the thread was joined or left alone.
    handle: Option<JoinHandle<()>>,
    end: Arc<ThreadEnd>,
}

/// The signal that a thread has ended.
#[derive(Debug, Default)]
struct ThreadEnd {
    has_ended: Mutex<bool>,
    changed: Condvar,
}

/// A guard that signals the end of its thread, also after a panic.
struct EndGuard(Arc<ThreadEnd>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        *self.0.has_ended.lock() = true;
        self.0.changed.notify_all();
    }
}

impl WorkerThread {
    /// Starts a thread.
    pub(crate) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let end = Arc::new(ThreadEnd::default());
        let guard = EndGuard(end.clone());
        let handle = thread::Builder::new().name(name.into()).spawn(move || {
            let _guard = guard;
            body();
        })?;
        Ok(WorkerThread { handle: Some(handle), end })
    }

    /// Waits for the end of the thread; returns `false` if it has not ended within `patience`.
    ///
    /// The thread itself does not wait for its own end. A thread that has not ended is left alone:
    /// later calls return `true` at once.
    pub(crate) fn join_within(&mut self, patience: Duration) -> bool {
        let Some(handle) = self.handle.take() else { return true };
        if handle.thread().id() == thread::current().id() {
            return true;
        }
        let mut has_ended = self.end.has_ended.lock();
        self.end.changed.wait_while_for(&mut has_ended, |has_ended| !*has_ended, patience);
        if *has_ended {
            let _ = handle.join();
        }
        *has_ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_does_not_end_is_left_alone() {
        let (release, released) = mpsc::channel::<()>();
        let body = move || {
            let _ = released.recv();
        };
        let mut stuck = WorkerThread::start("stuck", body).unwrap();
        assert!(!stuck.join_within(Duration::from_millis(1)));
        assert!(stuck.join_within(Duration::ZERO), "nobody waits for it again");
        drop(release);
    }

    #[test]
    fn a_thread_that_panics_has_ended() {
        let mut failing = WorkerThread::start("failing", || panic!("a test")).unwrap();
        assert!(failing.join_within(Duration::from_secs(30)));
    }
}
