//! A thread that runs jobs one after the other, for blocking work on a resource such as a database.

use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

/// A handle of a worker thread. Dropping it waits until the thread has finished all queued jobs.
pub(crate) struct Worker<J> {
    /// `None` after [`Worker::stop`].
    jobs: Mutex<Option<SyncSender<J>>>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// The reason why a job was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerError {
    /// The queue of jobs is full.
    Full,
    /// The thread has ended because the server stops, or because of a panic.
    Stopped,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts a thread with a queue of at most `capacity` jobs.
    pub(crate) fn start(
        name: &str,
        capacity: usize,
        work: impl FnOnce(Receiver<J>) + Send + 'static,
    ) -> io::Result<Worker<J>> {
        let (jobs, waiting) = mpsc::sync_channel(capacity);
        let handle = thread::Builder::new().name(name.into()).spawn(move || work(waiting))?;
        Ok(Worker { jobs: Mutex::new(Some(jobs)), handle: Mutex::new(Some(handle)) })
    }

    /// Queues a job without blocking.
    pub(crate) fn send(&self, job: J) -> Result<(), WorkerError> {
        let sent = self.jobs.lock().as_ref().ok_or(WorkerError::Stopped)?.try_send(job);
        sent.map_err(|error| match error {
            TrySendError::Full(_) => WorkerError::Full,
            TrySendError::Disconnected(_) => WorkerError::Stopped,
        })
    }
}

impl<J> Worker<J> {
    /// Stops the thread after all queued jobs and waits for it.
    pub(crate) fn stop(&self) {
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
        self.stop();
    }
}
