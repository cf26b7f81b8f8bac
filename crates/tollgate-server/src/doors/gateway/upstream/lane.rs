//! A connection to an upstream, driven by whoever uses it.
//!
//! hyper hands out a connection as two halves: one takes requests, the other does the reading and
//! writing and is usually given a task of its own. Then each request goes through a channel and two
//! tasks wake each other. Here both halves stay together, and the request's own task drives them:
//! no channel is waited for, nobody is woken, and an idle lane costs no task.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Upstream;

/// A connection to an upstream.
#[derive(Debug)]
pub(super) struct Lane {
    sender: SendRequest<Incoming>,
    connection: Pin<Box<Connection<TokioIo<TcpStream>, Incoming>>>,
}

impl Lane {
    pub(super) async fn open(stream: TcpStream) -> hyper::Result<Lane> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Lane { sender, connection: Box::pin(connection) })
    }

    /// Whether it can take a request. Looks once at what the upstream did meanwhile.
    pub(super) async fn is_good(&mut self) -> bool {
        poll_fn(|context| {
            let open = self.connection.as_mut().poll(context).is_pending();
            Poll::Ready(open && self.sender.is_ready())
        })
        .await
    }

    /// Sends a request. If it fails before anything was sent, the request comes back.
    pub(super) async fn send(
        mut self,
        request: Request<Incoming>,
        home: &Arc<Upstream>,
    ) -> Result<Response<LaneBody>, (hyper::Error, Option<Request<Incoming>>)> {
        let mut sent = pin!(self.sender.try_send_request(request));
        let connection = &mut self.connection;
        let mut is_open = true;
        let response = poll_fn(|context| {
            if is_open && connection.as_mut().poll(context).is_ready() {
                is_open = false;
            }
            sent.as_mut().poll(context)
        })
        .await;
        match response {
            Ok(response) => {
                let lane = is_open.then_some(self);
                Ok(response.map(|body| LaneBody::new(body, lane, home)))
            }
            Err(mut error) => {
                let unsent = error.take_message();
                Err((error.into_error(), unsent))
            }
        }
    }
}

/// The body of an upstream's answer. At its end the lane is free for others; dropped before, the
/// lane is closed, and the upstream notices.
#[derive(Debug)]
pub(in crate::doors::gateway) struct LaneBody {
    body: Incoming,
    lane: Option<Lane>,
    home: Arc<Upstream>,
}

impl LaneBody {
    fn new(body: Incoming, lane: Option<Lane>, home: &Arc<Upstream>) -> LaneBody {
        let mut body = LaneBody { body, lane, home: home.clone() };
        body.leave_at_end();
        body
    }

    fn leave_at_end(&mut self) {
        if self.body.is_end_stream()
            && let Some(lane) = self.lane.take()
        {
            self.home.give_back(lane);
        }
    }
}

impl Body for LaneBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.body).poll_frame(context);
        if frame.is_pending()
            && let Some(lane) = &mut this.lane
        {
            if lane.connection.as_mut().poll(context).is_ready() {
                this.lane = None;
            }
            frame = Pin::new(&mut this.body).poll_frame(context);
        }
        match &frame {
            Poll::Ready(None) => {
                if let Some(lane) = this.lane.take() {
                    this.home.give_back(lane);
                }
            }
            Poll::Ready(Some(Ok(_))) => this.leave_at_end(),
            Poll::Ready(Some(Err(_))) => this.lane = None,
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
