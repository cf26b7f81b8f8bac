//! Looking after a connection: nobody may be slower than the bounds say, and once the server
//! drains, everybody is let go in good order.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::time::{sleep, timeout};

use super::wire::{Pulse, Waiting};
use crate::config::Bounds;
use crate::net::{Drain, Seat, Stream};

/// What a client of HTTP/2 says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How a connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself, or because nothing was under way.
    Finished,
    /// It took too long, or its place is needed.
    CutOff,
}

/// Serves a connection to its end. `shut_down` has it take no more requests.
pub(super) async fn attend<C: Future>(
    mut connection: Pin<&mut C>,
    shut_down: impl Fn(Pin<&mut C>),
    pulse: &Pulse,
    drain: &Drain,
    bounds: &Bounds,
) -> Ended {
    let patience = |waiting| match waiting {
        Waiting::Quiet => bounds.idle_timeout,
        Waiting::Head => bounds.header_timeout,
        Waiting::Reader => bounds.write_timeout,
    };
    let mut wanted = pin!(pulse.seat.wanted());
    let mut closing = pin!(drain.closing());
    let mut let_go = false;
    let mut timed = Waiting::Quiet;
    let mut timer = pin!(sleep(patience(timed)));
    poll_fn(move |context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ended::Finished);
        }
        let waiting = pulse.waiting();
        if waiting != timed {
            timed = waiting;
            timer.set(sleep(patience(waiting)));
        }
        while timer.as_mut().poll(context).is_ready() {
            if waiting != Waiting::Quiet {
                return Poll::Ready(Ended::CutOff);
            }
            // Set anew only now and then, not with every request.
            if pulse.turns.look() {
                return Poll::Ready(Ended::CutOff);
            }
            let silent = Duration::from_millis(pulse.seat.silent_ms());
            match bounds.idle_timeout.checked_sub(silent) {
                _ if pulse.is_busy() => timer.set(sleep(bounds.idle_timeout)),
                Some(rest) if !rest.is_zero() => timer.set(sleep(rest)),
                _ => return Poll::Ready(Ended::Finished),
            }
        }
        if wanted.as_mut().poll(context).is_ready() {
            return Poll::Ready(Ended::CutOff);
        }
        if !let_go && closing.as_mut().poll(context).is_ready() {
            let_go = true;
            shut_down(connection.as_mut());
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ended::Finished);
            }
        }
        Poll::Pending
    })
    .await
}

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Reads until it is clear which protocol is spoken; `None` if the connection is over before.
pub(super) async fn protocol(
    stream: &mut Stream,
    read: &mut BytesMut,
    seat: &Seat,
    drain: &Drain,
    bounds: &Bounds,
) -> Option<Protocol> {
    let tell = async {
        // A connection that was opened ahead of its first request is only idle.
        let mut patience = bounds.idle_timeout;
        loop {
            if timeout(patience, stream.read_buf(read)).await.map_err(io::Error::from)?? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let length = read.len().min(PREFACE.len());
            if read[..length] != PREFACE[..length] {
                return Ok(Protocol::Http1);
            }
            if length == PREFACE.len() {
                return io::Result::Ok(Protocol::Http2);
            }
            patience = bounds.header_timeout;
        }
    };
    tokio::select! {
        told = tell => told.ok(),
        () = seat.wanted() => None,
        () = drain.closing() => None,
    }
}
