//! A thread that runs jobs one after the other, for blocking work on a resource such as a database.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvError, SyncSender, TryRecvError, TrySendError};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::worker_thread::{STOP_PATIENCE, WorkerThread};

/// The duration of a job, in milliseconds, after which its resource counts as stalled.
const STALLED_MS: u64 = 2_000;

/// A handle of a worker thread. Dropping it waits for the queued jobs, but not for a stalled resource.
pub(crate) struct Worker<J> {
    /// `None` after [`Worker::stop`].
    jobs: Mutex<Option<SyncSender<J>>>,
    thread: Mutex<WorkerThread>,
    progress: Arc<JobProgress>,
}

/// The progress of a worker thread, which others read without waiting for it.
#[derive(Debug, Default)]
struct JobProgress {
    /// The start of the current job, in monotonic milliseconds; 0 between jobs.
    started_ms: AtomicU64,
}

/// The jobs that a worker thread receives.
#[derive(Debug)]
pub(crate) struct JobReceiver<J> {
    jobs: Receiver<J>,
    progress: Arc<JobProgress>,
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
        work: impl FnOnce(JobReceiver<J>) + Send + 'static,
    ) -> io::Result<Worker<J>> {
        let (sender, receiver) = mpsc::sync_channel(capacity);
        let progress = Arc::new(JobProgress::default());
        let jobs = JobReceiver { jobs: receiver, progress: progress.clone() };
        let thread = WorkerThread::start(name, move || work(jobs))?;
        Ok(Worker { jobs: Mutex::new(Some(sender)), thread: Mutex::new(thread), progress })
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
    /// Stops the thread after all queued jobs; returns `false` if they are not done within `patience`.
    ///
    /// A thread that is not done is left alone, and goes on until its jobs are done.
    pub(crate) fn stop(&self, patience: Duration) -> bool {
        self.jobs.lock().take();
        self.thread.lock().join_within(patience)
    }

    /// Returns how long the current job has been running, if that is too long. Never waits.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        let started_ms = self.progress.started_ms.load(Ordering::Relaxed);
        let running_ms = clock::monotonic_ms().saturating_sub(started_ms);
        (started_ms > 0 && running_ms >= STALLED_MS).then(|| Duration::from_millis(running_ms))
    }
}

impl JobProgress {
    fn start_job(&self) {
        self.started_ms.store(clock::monotonic_ms().max(1), Ordering::Relaxed);
    }

    fn finish_job(&self) {
        self.started_ms.store(0, Ordering::Relaxed);
    }
}

impl<J> JobReceiver<J> {
    /// Waits for the next job. The previous one is finished.
    pub(crate) fn recv(&self) -> Result<J, RecvError> {
        self.progress.finish_job();
        let job = self.jobs.recv()?;
        self.progress.start_job();
        Ok(job)
    }

    /// Takes another job into the current one, if there is one.
    pub(crate) fn try_recv(&self) -> Result<J, TryRecvError> {
        self.jobs.try_recv()
    }
}

impl<J> Drop for JobReceiver<J> {
    fn drop(&mut self) {
        self.progress.finish_job();
    }
}

impl<J> fmt::Debug for Worker<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl<J> Drop for Worker<J> {
    fn drop(&mut self) {
        self.stop(STOP_PATIENCE);
    }
}
