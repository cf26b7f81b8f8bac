//! Holds the body of a request back until the upstream asks for it (`Expect: 100-continue`).
//!
//! hyper tells a client to send its body (`100 Continue`) as soon as the body is polled. So the body is
//! not polled before the upstream has told the gateway the same. An upstream that refuses the request
//! by its head gets no body, and the client need not send it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::time::{Sleep, sleep};

/// The signal that the upstream wants the body.
#[derive(Debug, Default)]
pub(super) struct ContinueSignal {
    is_given: AtomicBool,
    waker: AtomicWaker,
}

impl ContinueSignal {
    /// Records that the upstream wants the body.
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// A gate before a body. It opens at the signal, and after a time without one: an upstream that does
/// not know the expectation never gives it.
#[derive(Debug)]
pub(super) struct ContinueGate {
    signal: Arc<ContinueSignal>,
    timeout: Duration,
    /// The timer, from the moment when the head is sent and the body is wanted.
    timer: Option<Pin<Box<Sleep>>>,
}

impl ContinueGate {
    pub(super) fn new(signal: Arc<ContinueSignal>, timeout: Duration) -> ContinueGate {
        ContinueGate { signal, timeout, timer: None }
    }

    /// Returns `Ready` once the body may be read.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.signal.waker.register(context.waker());
        if self.signal.is_given.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        timer.as_mut().poll(context)
    }
}
