//! Helpers of the tests: a minimal executor, and waiting for other threads.
#![allow(dead_code, reason = "no test uses all helpers")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tollgate::Limit;

/// Parses a limit.
pub(crate) fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a future that never has to wait.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future is pending"),
    }
}

/// A task that the test polls, with a flag that its waker sets.
pub(crate) struct Task<F: Future> {
    future: std::pin::Pin<Box<F>>,
    woken: Arc<WakeFlag>,
}

struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<F: Future> Task<F> {
    /// Creates a task that was not polled yet.
    pub(crate) fn new(future: F) -> Task<F> {
        Task { future: Box::pin(future), woken: Arc::new(WakeFlag(AtomicBool::new(true))) }
    }

    /// Polls the task if it was woken, as an executor would.
    pub(crate) fn poll(&mut self) -> Option<F::Output> {
        if !self.woken.0.swap(false, Ordering::Relaxed) {
            return None;
        }
        let waker = self.woken.clone().into();
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}

/// Lets other threads run until `condition` holds; a test that hangs is stopped by its runner.
pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..50_000_000_u64 {
        if condition() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("waited for too long");
}
