//! HTTP/1.1 and HTTP/2 on a connection, for every door that speaks HTTP.
//!
//! Here are the protocol detection, the timeouts of slow and idle clients, and graceful shutdown.

mod activity;
mod browser_guard;
mod chunked_body;
pub(crate) mod frame_scanner;
mod interim;
mod read_body;
pub(crate) mod request_guard;
mod router;
mod slow_reader;
mod stream;
mod stream_task;
mod target_escape;

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use super::{Connection, ConnectionSlot, Drain, Stream};
use crate::config::Bounds;
use activity::{TrackedBody, WaitingFor};
use slow_reader::SlowReader;
use stream_task::StreamExecutor;

pub(crate) use activity::ConnectionActivity;
pub(crate) use browser_guard::BrowserGuard;
pub(crate) use frame_scanner::HeadTimer;
pub(crate) use read_body::{ReadBodyError, read_body};
pub(crate) use router::RouterDoor;
pub(crate) use stream::HttpStream;

/// The maximum size of a request head, in bytes, where none is configured.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;
/// The maximum number of streams that a client may reset before they are accepted.
const MAX_PENDING_RESETS: usize = 32;
/// The size of the buffer that the protocol is detected in.
const FIRST_READ: usize = 1024;
/// The bytes that a client of HTTP/2 sends first.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The maximum size of the heads that a proxy receives, from clients and from upstreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadBounds {
    /// The size in bytes.
    bytes: usize,
    /// The number of header fields on HTTP/1.1. On HTTP/2 the size bounds them.
    fields: usize,
}

impl HeadBounds {
    /// Creates bounds that hyper accepts: it needs a buffer of 8 KiB, and a map has few fields.
    pub(crate) fn new(bytes: usize, fields: usize) -> HeadBounds {
        HeadBounds { bytes: bytes.clamp(8 << 10, 512 << 10), fields: fields.clamp(16, 10_000) }
    }

    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    pub(crate) fn fields(self) -> usize {
        self.fields
    }
}

/// A server of HTTP/1.1 and HTTP/2 connections, within the configured bounds.
#[derive(Clone, Debug)]
pub(crate) struct HttpServer {
    bounds: Bounds,
    /// The maximum size of a head whose requests are guarded; `None` if they are not.
    guarded_head: Option<usize>,
    http1: http1::Builder,
    http2: http2::Builder<StreamExecutor>,
}

impl HttpServer {
    pub(crate) fn new(bounds: Bounds) -> HttpServer {
        let mut http1 = http1::Builder::new();
        // `supervise` enforces the timeouts: those of hyper would set a timer for every request.
        // Responses are small: copied into one buffer they are written faster than in two.
        http1.half_close(true).writev(false).max_buf_size(MAX_HEAD_BYTES);
        let executor = StreamExecutor { stall_timeout: bounds.stall_timeout };
        let mut http2 = http2::Builder::new(executor);
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(bounds.streams)
            .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
            .max_local_error_reset_streams(MAX_PENDING_RESETS)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_send_buf_size(MAX_HEAD_BYTES);
        HttpServer { bounds, guarded_head: None, http1, http2 }
    }

    /// Prepares the server for a proxy, whose upstreams parse every request again.
    ///
    /// Such a server [detects](ConnectionActivity::ambiguity) requests that could be read in two ways,
    /// and treats a client that has closed its write side as gone.
    pub(crate) fn for_proxy(mut self, heads: HeadBounds) -> HttpServer {
        self.guarded_head = Some(heads.bytes);
        self.http1.half_close(false).max_buf_size(heads.bytes).max_headers(heads.fields);
        self.http2.max_header_list_size(heads.bytes as u32);
        self
    }

    /// Serves a connection until it closes.
    ///
    /// `make_handler` gets the activity of the connection and returns the handler of its requests.
    pub(crate) async fn serve<H, F, B>(
        &self,
        connection: Connection,
        make_handler: impl FnOnce(&Arc<ConnectionActivity>) -> H,
    ) where
        H: Fn(Request<Incoming>) -> F,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Connection { mut stream, slot, drain, .. } = connection;
        let bounds = &self.bounds;
        let mut read = BytesMut::with_capacity(FIRST_READ);
        let detected = detect_protocol(&mut stream, &mut read, &slot, &drain, bounds).await;
        let Some(protocol) = detected else { return };
        let activity = ConnectionActivity::new(slot, drain.clone());
        let is_http1 = protocol == HttpProtocol::Http1;
        let stream = HttpStream::new(stream, read.freeze(), protocol, activity.clone());
        let stream = TokioIo::new(match self.guarded_head.filter(|_| is_http1) {
            Some(head_bytes) => stream.guarded(head_bytes),
            None => stream,
        });
        let handler = make_handler(&activity);
        // Boxed: hyper reserves its size for the life of the connection, and most are idle.
        let service = service_fn(|request| {
            let (active, response) = (activity.start_request(), handler(request));
            Box::pin(async move {
                let mut response = response.await;
                let goes_on = !is_http1 || response.status() == StatusCode::SWITCHING_PROTOCOLS;
                if !goes_on && active.is_leaving() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, active)))
            })
        });
        let end = match protocol {
            HttpProtocol::Http1 => {
                let served = pin!(self.http1.serve_connection(stream, service).with_upgrades());
                let shut_down = http1::UpgradeableConnection::graceful_shutdown;
                supervise(served, shut_down, &activity, &drain, bounds).await
            }
            HttpProtocol::Http2 => {
                // Boxed, so that connections of HTTP/1.1 do not reserve its size.
                let mut served = Box::pin(self.http2.serve_connection(stream, service));
                let shut_down = http2::Connection::graceful_shutdown;
                supervise(served.as_mut(), shut_down, &activity, &drain, bounds).await
            }
        };
        if let (ConnectionEnd::Finished, Some(stream)) = (end, activity.take_stream()) {
            stream.close().await;
        }
    }
}

/// The way a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionEnd {
    /// The client closed it, or it was idle: it may be closed gracefully.
    Finished,
    /// A timeout passed or the slot was evicted: it is dropped.
    CutOff,
}

/// Drives a connection to its end, enforcing timeouts, eviction and draining.
///
/// `shut_down` makes the connection accept no more requests.
async fn supervise<C: Future>(
    mut connection: Pin<&mut C>,
    shut_down: impl Fn(Pin<&mut C>),
    activity: &ConnectionActivity,
    drain: &Drain,
    bounds: &Bounds,
) -> ConnectionEnd {
    let timeout_of = |waiting| match waiting {
        WaitingFor::Request => bounds.idle_timeout,
        WaitingFor::Head => bounds.header_timeout,
        WaitingFor::Reader => bounds.write_timeout,
    };
    let mut evicted = pin!(activity.slot.evicted());
    let mut closing = pin!(drain.closing());
    let mut is_shut_down = false;
    let mut heads = HeadTimer::new(bounds.header_timeout);
    let mut reader = SlowReader::default();
    let mut timed = WaitingFor::Request;
    let mut timer = pin!(sleep(timeout_of(timed)));
    poll_fn(move |context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(ConnectionEnd::Finished);
        }
        let waiting = activity.waiting_for();
        if waiting != timed {
            timed = waiting;
            timer.set(sleep(timeout_of(waiting)));
            reader = SlowReader::new(activity.written_bytes());
        }
        while timer.as_mut().poll(context).is_ready() {
            match waiting {
                WaitingFor::Head => return Poll::Ready(ConnectionEnd::CutOff),
                WaitingFor::Reader => {
                    if reader.has_stalled(activity.written_bytes(), bounds.stall_timeout) {
                        return Poll::Ready(ConnectionEnd::CutOff);
                    }
                    timer.set(sleep(bounds.write_timeout));
                    continue;
                }
                WaitingFor::Request => {}
            }
            // The timer is reset only when it fires, not with every request.
            let idle = Duration::from_millis(activity.slot.idle_ms());
            match bounds.idle_timeout.checked_sub(idle) {
                _ if activity.is_busy() => timer.set(sleep(bounds.idle_timeout)),
                Some(rest) if !rest.is_zero() => timer.set(sleep(rest)),
                _ => return Poll::Ready(ConnectionEnd::Finished),
            }
        }
        if activity.poll_heads(context, &mut heads).is_ready() {
            return Poll::Ready(ConnectionEnd::CutOff);
        }
        if evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(ConnectionEnd::CutOff);
        }
        if !is_shut_down && closing.as_mut().poll(context).is_ready() {
            is_shut_down = true;
            shut_down(connection.as_mut());
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(ConnectionEnd::Finished);
            }
        }
        Poll::Pending
    })
    .await
}

/// The version of HTTP that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpProtocol {
    Http1,
    Http2,
}

/// Reads until the protocol is known; returns `None` if the connection ends before.
async fn detect_protocol(
    stream: &mut Stream,
    read: &mut BytesMut,
    slot: &ConnectionSlot,
    drain: &Drain,
    bounds: &Bounds,
) -> Option<HttpProtocol> {
    let detect = async {
        // A connection that was opened ahead of its first request is only idle.
        let mut limit = bounds.idle_timeout;
        loop {
            if timeout(limit, stream.read_buf(read)).await.map_err(io::Error::from)?? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let length = read.len().min(HTTP2_PREFACE.len());
            if read[..length] != HTTP2_PREFACE[..length] {
                return Ok(HttpProtocol::Http1);
            }
            if length == HTTP2_PREFACE.len() {
                return io::Result::Ok(HttpProtocol::Http2);
            }
            limit = bounds.header_timeout;
        }
    };
    tokio::select! {
        detected = detect => detected.ok(),
        () = slot.evicted() => None,
        () = drain.closing() => None,
    }
}
