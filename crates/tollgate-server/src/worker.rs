//! A thread that does one job after the other, for what blocks and has one owner: a database.

use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

/// A way to the thread. Dropped, it has the thread finish what waits, and waits for that.
pub(crate) struct Worker<J> {
    /// Empty once the thread is told to end.
    jobs: Mutex<Option<SyncSender<J>>>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// Why a job will not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// Too many wait already.
    Full,
    /// The thread has ended: only while the server stops, or after a panic.
    Gone,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts a thread for which at most so many jobs wait.
    pub(crate) fn start(
        name: &str,
        most: usize,
        work: impl FnOnce(Receiver<J>) + Send + 'static,
    ) -> io::Result<Worker<J>> {
        let (jobs, waiting) = mpsc::sync_channel(most);
        let handle = thread::Builder::new().name(name.into()).spawn(move || work(waiting))?;
        Ok(Worker { jobs: Mutex::new(Some(jobs)), handle: Mutex::new(Some(handle)) })
    }

    /// Leaves a job to the thread, without blocking.
    pub(crate) fn send(&self, job: J) -> Result<(), Undone> {
        let sent = self.jobs.lock().as_ref().ok_or(Undone::Gone)?.try_send(job);
        sent.map_err(|error| match error {
            TrySendError::Full(_) => Undone::Full,
            TrySendError::Disconnected(_) => Undone::Gone,
        })
    }
}

impl<J> Worker<J> {
    /// Has it finish what waits, and waits for that.
    pub(crate) fn end(&self) {
        self.jobs.lock().take();
        if let Some(handle) = self.handle.lock().take() {
            let _ = handle.join();
        }
    }
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl<J> Drop for Worker<J> {
    fn drop(&mut self) {
        self.end();
    }
}
