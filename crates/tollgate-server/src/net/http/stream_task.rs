//! Runs the streams of HTTP/2 connections, and resets those whose client does not read.
//!
//! A client of HTTP/2 can read from its connection and still take nothing of one response, because it
//! opens no window for that stream. Then no write is blocked and the connection is not idle, but the
//! response waits, and holds its permits. hyper does not poll such a body, so that the body itself
//! cannot notice. The task of the stream can: it knows since when the body has waited for its client,
//! and ends. Its stream is then reset, and its body is dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;
use tokio::time::{Instant, Sleep, sleep};

use crate::background::{self, BackgroundWorker, PanicGuard};
use crate::clock;

tokio::task_local! {
    /// The progress of the stream whose task is running.
    static PROGRESS: Arc<StreamProgress>;
}

/// The progress of the response on one HTTP/2 stream.
#[derive(Debug, Default)]
pub(super) struct StreamProgress {
    /// When the body began to wait for its client, in monotonic milliseconds; 0 if it does not.
    waiting_since_ms: AtomicU64,
}

impl StreamProgress {
    /// Returns the progress of the stream whose task is running; `None` on HTTP/1.1.
    pub(super) fn current() -> Option<Arc<StreamProgress>> {
        PROGRESS.try_with(Arc::clone).ok()
    }

    /// Records that the body has given a part to its client, and waits from now on.
    pub(super) fn wait_for_client(&self) {
        self.waiting_since_ms.store(clock::monotonic_ms().max(1), Ordering::Relaxed);
    }

    /// Records that the body waits for its source instead of its client, or has ended.
    pub(super) fn wait_for_source(&self) {
        self.waiting_since_ms.store(0, Ordering::Relaxed);
    }

    /// Returns how long the body has waited for its client; `None` if it does not.
    fn waited(&self) -> Option<Duration> {
        match self.waiting_since_ms.load(Ordering::Relaxed) {
            0 => None,
            since => Some(Duration::from_millis(clock::monotonic_ms().saturating_sub(since))),
        }
    }
}

/// An executor that runs each stream in a task with a deadline for stalled clients.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamExecutor {
    pub(super) stall_timeout: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let progress = Arc::<StreamProgress>::default();
        tokio::spawn(StreamTask {
            stream: PROGRESS.scope(progress.clone(), stream),
            progress,
            stall_timeout: self.stall_timeout,
            timer: None,
            panics: PanicGuard::new(BackgroundWorker::Stream),
        });
    }
}

pin_project! {
    /// The task of one stream; it ends with its stream, or when the client has stalled for too long.
    struct StreamTask<F> {
        #[pin]
        stream: TaskLocalFuture<Arc<StreamProgress>, F>,
        progress: Arc<StreamProgress>,
        stall_timeout: Duration,
        // The timer; set only once a response does not pass at once.
        timer: Option<Pin<Box<Sleep>>>,
        // Dropped while the task unwinds, if the stream panics.
        panics: PanicGuard,
    }
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        background::panic_point(BackgroundWorker::Stream);
        if this.stream.poll(context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let Some(waited) = this.progress.waited() else { return Poll::Pending };
            let left = this.stall_timeout.saturating_sub(waited);
            if left.is_zero() {
                return Poll::Ready(());
            }
            // The timer of an earlier part is moved only when it fires.
            let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(left)));
            if timer.is_elapsed() {
                timer.as_mut().reset(Instant::now() + left);
            }
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}
