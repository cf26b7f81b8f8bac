//! One HTTP/2 connection of the gRPC services: accepts calls, keeps alive and drains.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Ping, PingPong, RecvStream};
use http::Request;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{GrpcServices, call};
use crate::background::{self, BackgroundWorker};
use crate::clock;
use crate::config::Bounds;
use crate::net::http::{ConnectionActivity, HeadTimer, HttpProtocol, HttpStream};
use crate::net::{BodyMemory, Connection};

/// The maximum number of calls that are run before their responses are written.
///
/// One write serves all of them, and other tasks of this thread wait no longer than for these.
const CALLS_PER_WRITE: usize = 32;
/// The maximum size of a request head, in bytes: a token and the headers of proxies fit.
const MAX_HEAD_BYTES: u32 = 16 << 10;
/// The window of a connection, as a multiple of the largest message.
const WINDOW_MESSAGES: u32 = 2;
/// The longest interval between pings of an idle client.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// The default window of HTTP/2.
const DEFAULT_WINDOW: u32 = 65_535;

type GrpcCall = (Request<RecvStream>, SendResponse<Bytes>);
type H2 = h2::server::Connection<HttpStream, Bytes>;

/// Serves a connection until it closes.
pub(super) async fn serve(services: &Arc<GrpcServices>, connection: Connection) {
    let Connection { stream, peer, slot, drain } = connection;
    let bounds = services.context.config.bounds;
    let memory = BodyMemory::new(&services.context.bodies, peer.map(|peer| peer.ip()));
    let activity = ConnectionActivity::new(slot, drain.clone());
    let slot = &activity.slot;
    let stream = HttpStream::new(stream, Bytes::new(), HttpProtocol::Http2, activity.clone());
    let mut heads = HeadTimer::new(bounds.header_timeout);
    let mut evicted = pin!(slot.evicted());
    let mut closing = pin!(drain.closing());
    let handshake = tokio::select! {
        result = timeout(bounds.header_timeout, settings(&bounds).handshake(stream)) => result,
        () = &mut evicted => return,
        () = &mut closing => return,
    };
    let Ok(Ok(mut h2)) = handshake else { return };
    let mut keep_alive = KeepAlive::new(h2.ping_pong());
    let interval_length = (bounds.idle_timeout / 4).clamp(Duration::from_millis(10), PING_INTERVAL);
    let mut ticks = interval(interval_length);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut running = JoinSet::new();
    let mut calls = Vec::new();
    let mut is_closing = false;
    let mut request = None;
    let is_finished = loop {
        // A connection whose calls have not ended does not give way to a new one.
        if running.is_empty() == request.is_some() {
            request = (!running.is_empty()).then(|| slot.start_request());
        }
        tokio::select! {
            biased;
            more = accept_calls(&mut h2, &mut calls, &activity, &mut heads) => {
                slot.touch();
                for (request, respond) in calls.drain(..) {
                    start_call(services, &memory, request, respond, &mut running);
                }
                while running.try_join_next().is_some() {}
                if !more {
                    break true;
                }
            }
            () = &mut closing, if !is_closing => {
                is_closing = true;
                h2.graceful_shutdown();
            }
            () = &mut evicted => break false,
            _ = running.join_next(), if !running.is_empty() => {}
            _ = ticks.tick() => {
                let idle = Duration::from_millis(slot.idle_ms());
                // A client that is only slow to answer keeps its connection like one of the other
                // doors. At the end it has one more interval to read the reason.
                let silent = keep_alive.check(clock::monotonic_ms(), idle >= interval_length);
                let patience = if is_closing { interval_length } else { bounds.idle_timeout };
                if silent >= patience {
                    break false;
                }
                if idle >= bounds.idle_timeout && running.is_empty() && !is_closing {
                    is_closing = true;
                    h2.graceful_shutdown();
                }
            }
        }
    };
    drop(h2);
    if let (true, Some(stream)) = (is_finished, activity.take_stream()) {
        stream.close().await;
    }
}

fn settings(bounds: &Bounds) -> Builder {
    let message = u32::try_from(bounds.body + call::PREFIX_BYTES).unwrap_or(u32::MAX);
    let window = message.clamp(DEFAULT_WINDOW, i32::MAX as u32 / WINDOW_MESSAGES);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(MAX_HEAD_BYTES)
        .initial_window_size(window)
        .initial_connection_window_size(window * WINDOW_MESSAGES)
        // A client that opens and resets many streams at once loses its connection.
        .max_pending_accept_reset_streams(64)
        .max_concurrent_reset_streams(64)
        .max_local_error_reset_streams(Some(256));
    builder
}

/// Accepts all calls that have come so far; returns whether more may come.
///
/// No more come if the connection ends, or a head is unfinished for too long.
///
/// Responses stay in the buffer of the connection and are written together when it is polled again.
async fn accept_calls(
    h2: &mut H2,
    calls: &mut Vec<GrpcCall>,
    activity: &ConnectionActivity,
    heads: &mut HeadTimer,
) -> bool {
    poll_fn(|context| {
        while calls.len() < CALLS_PER_WRITE {
            match pin!(h2.accept()).poll(context) {
                Poll::Ready(Some(Ok(call))) => calls.push(call),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(false),
                Poll::Pending if calls.is_empty() => {
                    return activity.poll_heads(context, heads).map(|()| false);
                }
                Poll::Pending => break,
            }
        }
        Poll::Ready(true)
    })
    .await
}

/// Runs a call to its end if it need not wait, which is nearly always the case.
fn start_call(
    services: &Arc<GrpcServices>,
    memory: &BodyMemory,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    running: &mut JoinSet<()>,
) {
    if request.uri().path() != call::SHOULD_RATE_LIMIT {
        let call = services.clone().forward_to_tonic(request, respond);
        running.spawn(background::guarded(BackgroundWorker::GrpcCall, call));
        return;
    }
    let mut response = Box::pin(call::respond(services.clone(), memory.clone(), request, respond));
    // A call that has to wait is polled again by a task, which can be woken.
    if response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        let time_limit = services.context.config.bounds.header_timeout;
        running.spawn(background::guarded(BackgroundWorker::GrpcCall, async move {
            let _ = timeout(time_limit, response).await;
        }));
    }
}

/// The pings that detect whether an idle client is still connected.
struct KeepAlive {
    pings: Option<PingPong>,
    /// When a ping was sent that is not answered yet, in monotonic milliseconds.
    unanswered_ms: Option<u64>,
}

impl KeepAlive {
    fn new(pings: Option<PingPong>) -> KeepAlive {
        KeepAlive { pings, unanswered_ms: None }
    }

    /// Returns how long the client has not answered a ping, and pings an idle one that has.
    fn check(&mut self, now_ms: u64, is_idle: bool) -> Duration {
        let Some(pings) = &mut self.pings else { return Duration::ZERO };
        if let Some(sent_ms) = self.unanswered_ms {
            // No waker is needed: the next tick polls again.
            let answered = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
            if answered.is_pending() {
                return Duration::from_millis(now_ms.saturating_sub(sent_ms));
            }
            self.unanswered_ms = None;
        }
        if is_idle && pings.send_ping(Ping::opaque()).is_ok() {
            self.unanswered_ms = Some(now_ms);
        }
        Duration::ZERO
    }
}
