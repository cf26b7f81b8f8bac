//! What the tests share: a manual clock's worth of waiting, and the smallest executor.
#![allow(dead_code, reason = "no test uses all of it")]

#[cfg(feature = "rules")]
pub(crate) mod rules;
#[cfg(feature = "rules")]
pub(crate) mod shaky;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tollgate::Limit;

/// A limit from its text.
pub(crate) fn limit(text: &str) -> Limit {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a future that never has to wait.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// A task that is polled by hand, and knows whether it was woken.
pub(crate) struct Task<F: Future> {
    future: std::pin::Pin<Box<F>>,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<F: Future> Task<F> {
    /// A task that was not polled yet.
    pub(crate) fn new(future: F) -> Task<F> {
        Task { future: Box::pin(future), woken: Arc::new(Woken(AtomicBool::new(true))) }
    }

    /// Polls it as an executor would: only if it was woken.
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
pub(crate) fn until(condition: impl Fn() -> bool) {
    for _ in 0..50_000_000_u64 {
        if condition() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("waited for too long");
}
