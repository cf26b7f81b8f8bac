//! The body of a request on its way to an upstream, and how it is getting on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::clock;

/// How an upload is getting on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// The upstream has taken what there was, and the client has sent no more yet.
    WaitsForClient,
    /// There was more, and the upstream has not come for what is next.
    WaitsForUpstream,
    /// All of it was taken.
    Done,
    /// The client left, or broke the rules.
    Broken,
}

/// Shared by who sends a body on and who waits for the answer.
#[derive(Debug)]
pub(super) struct Progress {
    stage: AtomicU8,
    moved_ms: AtomicU64,
}

impl Progress {
    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Relaxed) {
            0 => Stage::WaitsForClient,
            1 => Stage::WaitsForUpstream,
            2 => Stage::Done,
            _ => Stage::Broken,
        }
    }

    /// For how long nothing has moved, in milliseconds.
    pub(super) fn still_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.moved_ms.load(Ordering::Relaxed))
    }

    fn moved(&self, stage: Stage) {
        self.moved_ms.store(clock::monotonic_ms(), Ordering::Relaxed);
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

/// The body of a request on its way to an upstream.
#[derive(Debug)]
pub(super) struct Upload {
    body: Option<Incoming>,
    /// The whole body, where it was read before.
    whole: Option<Box<Bytes>>,
    /// None of a body that is empty, or whole.
    progress: Option<Arc<Progress>>,
}

impl Upload {
    pub(super) fn new(body: Incoming) -> Upload {
        if body.is_end_stream() {
            return Upload::empty();
        }
        let progress = Progress {
            stage: AtomicU8::new(Stage::WaitsForUpstream as u8),
            moved_ms: AtomicU64::new(clock::monotonic_ms()),
        };
        Upload { body: Some(body), whole: None, progress: Some(Arc::new(progress)) }
    }

    /// No body at all.
    pub(super) fn empty() -> Upload {
        Upload { body: None, whole: None, progress: None }
    }

    /// A body that was read before.
    pub(super) fn whole(body: Bytes) -> Upload {
        Upload { whole: (!body.is_empty()).then(|| Box::new(body)), ..Upload::empty() }
    }

    pub(super) fn progress(&self) -> Option<Arc<Progress>> {
        self.progress.clone()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let (Some(body), Some(progress)) = (&mut this.body, &this.progress) else {
            return Poll::Ready(this.whole.take().map(|whole| Ok(Frame::data(*whole))));
        };
        let frame = Pin::new(&mut *body).poll_frame(context);
        match &frame {
            Poll::Pending if progress.stage() != Stage::WaitsForClient => {
                progress.moved(Stage::WaitsForClient);
            }
            Poll::Pending => {}
            Poll::Ready(None) => progress.moved(Stage::Done),
            Poll::Ready(Some(Err(_))) => progress.moved(Stage::Broken),
            Poll::Ready(Some(Ok(_))) if body.is_end_stream() => progress.moved(Stage::Done),
            Poll::Ready(Some(Ok(_))) => progress.moved(Stage::WaitsForUpstream),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_none() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.whole, &self.body) {
            (Some(whole), _) => SizeHint::with_exact(whole.len() as u64),
            (None, Some(body)) => body.size_hint(),
            (None, None) => SizeHint::with_exact(0),
        }
    }
}
