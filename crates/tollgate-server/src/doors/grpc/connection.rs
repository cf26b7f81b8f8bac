//! One connection of HTTP/2: calls are answered as they come, in good order until the end.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::Request;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::keepalive::KeepAlive;
use super::{Inside, call};
use crate::config::Bounds;
use crate::net::{Connection, Stream};

/// Calls that are answered before their answers are written: one write for all of them, and others
/// on this thread wait no longer than for these.
const TOGETHER: usize = 32;
/// The head of a request, in bytes: a token and what proxies add fit.
const HEAD: u32 = 16 << 10;
/// What a connection may have under way of requests that are not complete: so many of the
/// largest.
const INCOMPLETE: u32 = 2;
/// How often a silent client is asked whether it is there.
const ASK_SILENT: Duration = Duration::from_secs(20);
/// What HTTP/2 says a window is unless something else is said.
const USUAL_WINDOW: u32 = 65_535;

type Call = (Request<RecvStream>, SendResponse<Bytes>);
type H2 = h2::server::Connection<Stream, Bytes>;

/// Serves a connection to its end.
pub(super) async fn serve(door: &Arc<Inside>, connection: Connection) {
    let Connection { stream, seat, drain, .. } = connection;
    let bounds = door.context.config.bounds;
    let mut wanted = pin!(seat.wanted());
    let mut closing = pin!(drain.closing());
    let shaken = tokio::select! {
        shaken = timeout(bounds.header_timeout, settings(&bounds).handshake(stream)) => shaken,
        () = &mut wanted => return,
        () = &mut closing => return,
    };
    let Ok(Ok(mut h2)) = shaken else { return };
    let mut keep_alive = KeepAlive::new(h2.ping_pong());
    let step = (bounds.idle_timeout / 4).clamp(Duration::from_millis(10), ASK_SILENT);
    let mut ticks = interval(step);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut under_way = JoinSet::new();
    let mut calls = Vec::new();
    let mut is_closing = false;
    loop {
        tokio::select! {
            biased;
            more = next(&mut h2, &mut calls) => {
                seat.heard();
                for (request, respond) in calls.drain(..) {
                    begin(door, request, respond, &mut under_way);
                }
                while under_way.try_join_next().is_some() {}
                if !more {
                    return;
                }
            }
            () = &mut closing, if !is_closing => {
                is_closing = true;
                h2.graceful_shutdown();
            }
            () = &mut wanted => return,
            _ = ticks.tick() => {
                let silent = Duration::from_millis(seat.silent_ms());
                if !keep_alive.is_alive(silent >= step) {
                    return;
                }
                if silent >= bounds.idle_timeout && under_way.is_empty() && !is_closing {
                    is_closing = true;
                    h2.graceful_shutdown();
                }
            }
        }
    }
}

fn settings(bounds: &Bounds) -> Builder {
    let message = u32::try_from(bounds.body + call::PREFIX).unwrap_or(u32::MAX);
    let window = message.clamp(USUAL_WINDOW, i32::MAX as u32 / INCOMPLETE);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(bounds.streams)
        .max_header_list_size(HEAD)
        .initial_window_size(window)
        .initial_connection_window_size(window * INCOMPLETE)
        // Streams that are opened and reset at once cost the client its connection.
        .max_pending_accept_reset_streams(64)
        .max_concurrent_reset_streams(64)
        .max_local_error_reset_streams(Some(256));
    builder
}

/// Takes all calls that have come so far. Answers wait inside the connection meanwhile, and are
/// written together once it is asked again. Whether there may be more.
async fn next(h2: &mut H2, calls: &mut Vec<Call>) -> bool {
    poll_fn(|context| {
        while calls.len() < TOGETHER {
            match pin!(h2.accept()).poll(context) {
                Poll::Ready(Some(Ok(call))) => calls.push(call),
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(false),
                Poll::Pending if calls.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(true)
    })
    .await
}

/// Answers a call on the spot if nothing has to be waited for, which is nearly always.
fn begin(
    door: &Arc<Inside>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    under_way: &mut JoinSet<()>,
) {
    if request.uri().path() != call::PATH {
        under_way.spawn(door.clone().pass_on(request, respond));
        return;
    }
    let mut answer = Box::pin(call::answer(door.clone(), request, respond));
    // Who has to wait is polled again by a task that can be woken.
    if answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        let patience = door.context.config.bounds.header_timeout;
        under_way.spawn(async move {
            let _ = timeout(patience, answer).await;
        });
    }
}
