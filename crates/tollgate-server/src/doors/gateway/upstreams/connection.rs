//! A connection to an upstream, driven by the request that uses it.
//!
//! hyper splits a connection into two halves: one takes requests, the other reads and writes and
//! usually runs in its own task. Each request then goes through a channel, and two tasks wake each
//! other. Here the request's own task drives both halves, without a channel or wake-ups, and an
//! idle connection needs no task.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::super::upload::Upload;
use super::lazy_timer::LazyTimer;
use super::response_deadline::ResponseDeadline;
use super::{SendError, UpstreamError};
use crate::net::Stream;
use crate::net::http::HeadBounds;

/// A connection to an upstream.
pub(in crate::doors::gateway) struct UpstreamConnection {
    sender: SendRequest<Upload>,
    /// The driver of the connection; `None` once it has ended.
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    pub(super) timer: LazyTimer,
    /// The time of the last use, in monotonic milliseconds; 0 if there was none.
    pub(super) used_ms: u64,
}

impl UpstreamConnection {
    pub(super) async fn open(
        stream: Stream,
        heads: HeadBounds,
    ) -> hyper::Result<UpstreamConnection> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(heads.bytes()).max_headers(heads.fields());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let connection = Some(Box::pin(connection.with_upgrades()) as _);
        Ok(UpstreamConnection { sender, connection, timer: LazyTimer::default(), used_ms: 0 })
    }

    /// Reads and writes as far as possible; returns whether the connection goes on.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(context).is_ready()
        {
            self.connection = None;
        }
        self.connection.is_some()
    }

    /// Returns whether the connection can take a request. Checks once whether the upstream has
    /// closed it.
    pub(super) fn is_good(&mut self) -> bool {
        // No waker is needed: a request that takes the connection drives it.
        self.drive(&mut Context::from_waker(Waker::noop())) && self.sender.is_ready()
    }

    /// Drives the connection to its end, which hands over the bytes of another protocol.
    pub(in crate::doors::gateway) async fn finish(mut self) {
        poll_fn(|context| if self.drive(context) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Sends a request and returns the response head.
    pub(super) async fn send(
        &mut self,
        request: Request<Upload>,
        mut deadline: ResponseDeadline<'_>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut sent = pin!(self.sender.try_send_request(request));
        let (connection, timer) = (&mut self.connection, &mut self.timer);
        let answer = poll_fn(|context| {
            if let Some(driven) = connection
                && driven.as_mut().poll(context).is_ready()
            {
                *connection = None;
            }
            if let Poll::Ready(answer) = sent.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            deadline.poll(context, timer).map(Err)
        })
        .await;
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(SendError::of(error, &deadline)),
            Err(error) => Err(SendError::Failed(error)),
        }
    }
}

impl fmt::Debug for UpstreamConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamConnection")
            .field("is_open", &self.connection.is_some())
            .finish_non_exhaustive()
    }
}

impl From<hyper::Error> for UpstreamError {
    fn from(error: hyper::Error) -> UpstreamError {
        UpstreamError::Broken(error)
    }
}
