//! Panics that tests inject into workers.

use super::BackgroundWorker;

/// Panics if a test has asked for it. In every other build, this is nothing.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn panic_point(_worker: BackgroundWorker) {}

#[cfg(test)]
static INJECTED: parking_lot::Mutex<Vec<BackgroundWorker>> = parking_lot::Mutex::new(Vec::new());

/// Lets the next `count` runs of a worker panic.
#[cfg(test)]
pub(crate) fn inject_panics(worker: BackgroundWorker, count: usize) {
    INJECTED.lock().extend(std::iter::repeat_n(worker, count));
}

/// Panics if a test has asked for it.
#[cfg(test)]
pub(crate) fn panic_point(worker: BackgroundWorker) {
    let mut injected = INJECTED.lock();
    let found = injected.iter().position(|wanted| *wanted == worker);
    if let Some(at) = found {
        injected.remove(at);
        drop(injected);
        panic!("injected into {}", worker.as_str());
    }
}
