//! Response bodies of upstreams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Instant;

use super::super::upload::{UploadProgress, UploadStage};
use super::UpstreamLoad;
use super::connection::UpstreamConnection;
use super::lazy_timer::LazyTimer;

/// The reason why a response body ended too early.
#[derive(Debug, thiserror::Error)]
pub(in crate::doors::gateway) enum UpstreamBodyError {
    #[error(transparent)]
    Broken(#[from] hyper::Error),
    #[error("the upstream paused for too long")]
    Paused,
}

/// The body of an upstream's response. At its end the connection is reusable; dropped before, the
/// connection is closed.
#[derive(Debug)]
pub(in crate::doors::gateway) struct UpstreamBody {
    body: Incoming,
    /// The connection of the response, unless it is shared.
    connection: Option<UpstreamConnection>,
    /// The timer of bodies on shared connections.
    timer: LazyTimer,
    progress: Option<Arc<UploadProgress>>,
    load: UpstreamLoad,
    /// The maximum pause, and the end of the current one.
    pause: Duration,
    due: Option<Instant>,
    /// Whether the length is not told, so that the body is sent in chunks.
    is_chunked: bool,
}

impl UpstreamBody {
    pub(in crate::doors::gateway) fn new(
        body: Incoming,
        connection: Option<UpstreamConnection>,
        progress: Option<Arc<UploadProgress>>,
        load: UpstreamLoad,
        pause: Duration,
    ) -> UpstreamBody {
        let timer = LazyTimer::default();
        let mut body = UpstreamBody {
            body,
            connection,
            timer,
            progress,
            load,
            pause,
            due: None,
            is_chunked: false,
        };
        body.leave_at_end();
        body
    }

    /// Has the body sent in chunks to a client of HTTP/1.1, even if its length is known.
    pub(in crate::doors::gateway) fn send_in_chunks(&mut self) {
        self.is_chunked = true;
    }

    fn leave_at_end(&mut self) {
        if self.body.is_end_stream() {
            self.leave();
        }
    }

    /// Returns the connection to the pool, unless the request is still being sent on it.
    fn leave(&mut self) {
        let done =
            self.progress.as_ref().is_none_or(|progress| progress.stage() == UploadStage::Done);
        if let Some(connection) = self.connection.take().filter(|_| done) {
            self.load.give_back(connection);
        }
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && !connection.drive(context)
        {
            self.connection = None;
        }
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = *self.due.get_or_insert_with(|| Instant::now() + self.pause);
        match &mut self.connection {
            Some(connection) => connection.timer.poll(context, due),
            None => self.timer.poll(context, due),
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = UpstreamBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UpstreamBodyError>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_pending() && this.connection.is_some() {
            this.drive(context);
            frame = Pin::new(&mut this.body).poll_frame(context);
        }
        match frame {
            Poll::Pending => match this.poll_pause(context) {
                Poll::Ready(()) => {
                    this.connection = None;
                    Poll::Ready(Some(Err(UpstreamBodyError::Paused)))
                }
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(frame) => {
                this.due = None;
                match &frame {
                    None => this.leave(),
                    Some(Ok(_)) => this.leave_at_end(),
                    Some(Err(_)) => this.connection = None,
                }
                Poll::Ready(frame.map(|frame| frame.map_err(UpstreamBodyError::from)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.is_chunked {
            true => SizeHint::default(),
            false => self.body.size_hint(),
        }
    }
}
