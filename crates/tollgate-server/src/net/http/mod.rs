//! HTTP on a connection, the same for every door that speaks it: which protocol it is, how slow a
//! client may be, and how it is let go.

mod attend;
mod chunks;
mod guard;
mod held;
mod router;
mod turns;
mod wire;

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::Connection;
use crate::config::Bounds;
use attend::{Ended, Protocol, attend, protocol};
use held::Held;
use wire::Wire;

pub(crate) use router::RouterDoor;
pub(crate) use wire::Pulse;

/// What the head of a request may have, in bytes.
pub(crate) const LONGEST_HEAD: usize = 64 << 10;
/// Streams that were reset before they were looked at: more is a flood.
const MOST_RESETS: usize = 32;
/// What is read at first to see which protocol is spoken.
const FIRST_READ: usize = 1024;

/// Speaks HTTP/1.1 and HTTP/2, within bounds.
#[derive(Clone, Debug)]
pub(crate) struct HttpServer {
    bounds: Bounds,
    /// Whether requests that could be read differently are told apart.
    guards: bool,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl HttpServer {
    pub(crate) fn new(bounds: Bounds) -> HttpServer {
        let mut http1 = http1::Builder::new();
        // Timeouts are kept by `attend`: those of hyper would set a timer for every request.
        // Answers are small: copied into one piece they are written quicker than in two.
        http1.half_close(true).writev(false).max_buf_size(LONGEST_HEAD);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(bounds.streams)
            .max_pending_accept_reset_streams(MOST_RESETS)
            .max_local_error_reset_streams(MOST_RESETS)
            .max_header_list_size(LONGEST_HEAD as u32)
            .max_send_buf_size(LONGEST_HEAD);
        HttpServer { bounds, guards: false, http1, http2 }
    }

    /// The same for requests that others will read after us: those that could be read differently
    /// are [told apart](Pulse::unsound), and who says that nothing more comes has left.
    pub(crate) fn for_others(mut self) -> HttpServer {
        self.guards = true;
        self.http1.half_close(false);
        self
    }

    /// Answers what comes on a connection until it ends. `greet` is told how the connection is
    /// doing, and makes of that what answers its requests.
    pub(crate) async fn serve<A, F, B>(
        &self,
        connection: Connection,
        greet: impl FnOnce(&Arc<Pulse>) -> A,
    ) where
        A: Fn(Request<Incoming>) -> F,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Connection { mut stream, seat, drain, .. } = connection;
        let bounds = &self.bounds;
        let mut read = BytesMut::with_capacity(FIRST_READ);
        let Some(spoken) = protocol(&mut stream, &mut read, &seat, &drain, bounds).await else {
            return;
        };
        let pulse = Pulse::new(seat, drain.clone());
        let is_http1 = spoken == Protocol::Http1;
        let wire = Wire::new(stream, read.freeze(), is_http1, pulse.clone());
        let wire = TokioIo::new(if self.guards && is_http1 { wire.guarded() } else { wire });
        let answer = greet(&pulse);
        // Boxed: hyper keeps room for it as long as the connection lasts, and most are idle.
        let service = service_fn(|request| {
            let (busy, answer) = (pulse.request(), answer(request));
            Box::pin(async move {
                let mut answer = answer.await;
                let goes_on = !is_http1 || answer.status() == StatusCode::SWITCHING_PROTOCOLS;
                if !goes_on && busy.is_leaving() {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(answer.map(|body| Held::new(body, busy)))
            })
        });
        let ended = match spoken {
            Protocol::Http1 => {
                let served = pin!(self.http1.serve_connection(wire, service).with_upgrades());
                let shut_down = http1::UpgradeableConnection::graceful_shutdown;
                attend(served, shut_down, &pulse, &drain, bounds).await
            }
            Protocol::Http2 => {
                // Boxed, so that connections of HTTP/1.1 need no room for it.
                let mut served = Box::pin(self.http2.serve_connection(wire, service));
                let shut_down = http2::Connection::graceful_shutdown;
                attend(served.as_mut(), shut_down, &pulse, &drain, bounds).await
            }
        };
        if let (Ended::Finished, Some(stream)) = (ended, pulse.take_stream()) {
            stream.close().await;
        }
    }
}
