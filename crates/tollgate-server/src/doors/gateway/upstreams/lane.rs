//! A connection to an upstream, driven by whoever uses it.
//!
//! hyper hands out a connection as two halves: one takes requests, the other does the reading and
//! writing and is usually given a task of its own. Then each request goes through a channel and two
//! tasks wake each other. Here both halves stay together, and the request's own task drives them:
//! no channel is waited for, nobody is woken, and an idle lane costs no task.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::super::upload::Upload;
use super::alarm::Alarm;
use super::patience::Patience;
use super::{SendError, UpstreamError};
use crate::net::Stream;
use crate::net::http::LONGEST_HEAD;

/// A connection to an upstream.
pub(in crate::doors::gateway) struct Lane {
    sender: SendRequest<Upload>,
    /// None once it has ended.
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    pub(super) alarm: Alarm,
    /// When it was last used, in milliseconds of this process.
    pub(super) used_ms: u64,
}

impl Lane {
    pub(super) async fn open(stream: Stream) -> hyper::Result<Lane> {
        let handshake =
            http1::Builder::new().max_buf_size(LONGEST_HEAD).handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await?;
        let connection = Some(Box::pin(connection.with_upgrades()) as _);
        Ok(Lane { sender, connection, alarm: Alarm::default(), used_ms: 0 })
    }

    /// Reads and writes what can be; whether the connection goes on.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(context).is_ready()
        {
            self.connection = None;
        }
        self.connection.is_some()
    }

    /// Whether it can take a request. Looks once at what the upstream did meanwhile.
    pub(super) fn is_good(&mut self) -> bool {
        // Nobody need be woken: who takes it drives it, and who does not looks again.
        self.drive(&mut Context::from_waker(Waker::noop())) && self.sender.is_ready()
    }

    /// Drives it until it is over: what was read of another protocol is handed on then.
    pub(in crate::doors::gateway) async fn finish(mut self) {
        poll_fn(|context| if self.drive(context) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Sends a request; the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Upload>,
        mut patience: Patience<'_>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut sent = pin!(self.sender.try_send_request(request));
        let (connection, alarm) = (&mut self.connection, &mut self.alarm);
        let answer = poll_fn(|context| {
            if let Some(driven) = connection
                && driven.as_mut().poll(context).is_ready()
            {
                *connection = None;
            }
            if let Poll::Ready(answer) = sent.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            patience.poll(context, alarm).map(Err)
        })
        .await;
        match answer {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(SendError::of(error, &patience)),
            Err(error) => Err(SendError::Failed(error)),
        }
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("is_open", &self.connection.is_some()).finish_non_exhaustive()
    }
}

impl From<hyper::Error> for UpstreamError {
    fn from(error: hyper::Error) -> UpstreamError {
        UpstreamError::Broken(error)
    }
}
