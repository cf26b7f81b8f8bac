//! The body of a request on its way to an upstream, and how it is getting on.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::look::Room;
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
    fn new() -> Arc<Progress> {
        Arc::new(Progress {
            stage: AtomicU8::new(Stage::WaitsForUpstream as u8),
            moved_ms: AtomicU64::new(clock::monotonic_ms()),
        })
    }

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
    /// What was read of it before.
    ahead: VecDeque<Frame<Bytes>>,
    body: Option<Incoming>,
    /// None of a body that is empty.
    progress: Option<Arc<Progress>>,
    _room: Option<Room>,
}

impl Upload {
    pub(super) fn new(body: Incoming) -> Upload {
        if body.is_end_stream() {
            return Upload::empty();
        }
        let progress = Some(Progress::new());
        Upload { ahead: VecDeque::new(), body: Some(body), progress, _room: None }
    }

    /// A body of which some was read before, or all.
    pub(super) fn of(ahead: VecDeque<Frame<Bytes>>, rest: Option<Incoming>, room: Room) -> Upload {
        if ahead.is_empty() && rest.is_none() {
            return Upload::empty();
        }
        Upload { ahead, body: rest, progress: Some(Progress::new()), _room: Some(room) }
    }

    /// No body at all.
    pub(super) fn empty() -> Upload {
        Upload { ahead: VecDeque::new(), body: None, progress: None, _room: None }
    }

    /// What was not read of it.
    pub(super) fn into_rest(self) -> Option<Incoming> {
        self.body
    }

    /// A body that was read before, and what came after it.
    pub(super) fn whole(body: Bytes, trailers: HeaderMap) -> Upload {
        let mut ahead = VecDeque::new();
        if !body.is_empty() {
            ahead.push_back(Frame::data(body));
        }
        if !trailers.is_empty() {
            ahead.push_back(Frame::trailers(trailers));
        }
        if ahead.is_empty() {
            return Upload::empty();
        }
        Upload { ahead, progress: Some(Progress::new()), ..Upload::empty() }
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
        if let (Some(frame), Some(progress)) = (this.ahead.pop_front(), &this.progress) {
            let is_last = this.ahead.is_empty() && this.body.is_none();
            progress.moved(if is_last { Stage::Done } else { Stage::WaitsForUpstream });
            return Poll::Ready(Some(Ok(frame)));
        }
        let (Some(body), Some(progress)) = (&mut this.body, &this.progress) else {
            return Poll::Ready(None);
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
        self.ahead.is_empty() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let ahead: usize = self.ahead.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
        let lower = hint.lower() + ahead as u64;
        if self.ahead.iter().any(Frame::is_trailers) {
            // Nothing comes after a body of HTTP/1.1 whose length is known before.
            hint = SizeHint::default();
        } else if let Some(upper) = hint.upper() {
            hint.set_upper(upper + ahead as u64);
        }
        hint.set_lower(lower);
        hint
    }
}
