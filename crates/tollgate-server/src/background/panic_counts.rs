//! The panics of workers since the process started.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::BackgroundWorker;
use crate::clock;

/// The maximum length of a message that is kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 256;

static COUNTS: [AtomicU64; BackgroundWorker::ALL.len()] =
    [const { AtomicU64::new(0) }; BackgroundWorker::ALL.len()];
/// The last panic of each worker that had one: at most one entry per worker.
static LAST: Mutex<Vec<LastPanic>> = Mutex::new(Vec::new());

#[derive(Debug)]
struct LastPanic {
    worker: BackgroundWorker,
    message: String,
    at_ms: u64,
}

/// The panics of one worker.
#[derive(Clone, Debug)]
pub(crate) struct PanicCount {
    pub(crate) worker: BackgroundWorker,
    pub(crate) count: u64,
    /// The message of the last one.
    pub(crate) message: String,
    /// The time since the last one, in milliseconds.
    pub(crate) ago_ms: u64,
}

/// Logs and counts a panic.
pub(crate) fn record_panic(worker: BackgroundWorker, message: &str) {
    tracing::error!(
        worker = worker.as_str(),
        panic = message,
        "a panic interrupted a worker, which is a bug of tollgate: please report it"
    );
    COUNTS[worker as usize].fetch_add(1, Ordering::Relaxed);
    let end = message.floor_char_boundary(MAX_MESSAGE_BYTES);
    let message = message[..end].to_owned();
    let mut last = LAST.lock();
    last.retain(|panic| panic.worker != worker);
    last.push(LastPanic { worker, message, at_ms: clock::monotonic_ms() });
}

/// Returns the panics of all workers that had one.
pub(crate) fn panic_counts() -> Vec<PanicCount> {
    let now_ms = clock::monotonic_ms();
    let last = LAST.lock();
    let count = |panic: &LastPanic| PanicCount {
        worker: panic.worker,
        count: COUNTS[panic.worker as usize].load(Ordering::Relaxed),
        message: panic.message.clone(),
        ago_ms: now_ms.saturating_sub(panic.at_ms),
    };
    last.iter().map(count).collect()
}

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

/// A part of a task that records a panic of the task. It costs nothing until it is dropped.
#[derive(Debug)]
pub(crate) struct PanicGuard(BackgroundWorker);

impl PanicGuard {
    pub(crate) fn new(worker: BackgroundWorker) -> PanicGuard {
        PanicGuard(worker)
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The hook of the process has printed the message.
            record_panic(self.0, "see the message on standard error");
        }
    }
}
