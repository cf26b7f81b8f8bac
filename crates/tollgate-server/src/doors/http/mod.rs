//! The HTTP door: decisions, forward-auth, operations, on HTTP/1.1 and HTTP/2.
//!
//! Decision calls are matched before anything else and answered without a router; whatever is
//! left goes to the [admin](crate::admin) routes.

mod ask;
mod attend;
mod batch;
mod body;
mod call;
mod decide;
mod render;
mod values;
mod visit;
mod wire;

use std::sync::Arc;

use bytes::BytesMut;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use crate::config::Bounds;
use crate::net::{Connection, Door};
use crate::server::Context;
use attend::{Ended, Protocol, attend, protocol};
use visit::{Desk, Visit};
use wire::{Pulse, Wire};

pub(crate) use decide::limited;
pub(crate) use visit::Reply;

/// What the head of a request may have, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// Streams that were reset before they were looked at: more is a flood.
const MOST_RESETS: usize = 32;
/// What is read at first to see which protocol is spoken.
const FIRST_READ: usize = 4096;

/// The HTTP door.
#[derive(Clone, Debug)]
pub(crate) struct HttpDoor {
    desk: Arc<Desk>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl HttpDoor {
    pub(crate) fn new(context: Context) -> HttpDoor {
        let Bounds { streams, .. } = context.config.bounds;
        let mut http1 = http1::Builder::new();
        // Timeouts are kept by `attend`: those of hyper would set a timer for every request.
        // Answers are small: copied into one piece they are written quicker than in two.
        http1.half_close(true).writev(false).max_buf_size(LONGEST_HEAD);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(streams)
            .max_pending_accept_reset_streams(MOST_RESETS)
            .max_local_error_reset_streams(MOST_RESETS)
            .max_header_list_size(LONGEST_HEAD as u32)
            .max_send_buf_size(LONGEST_HEAD);
        HttpDoor { desk: Arc::new(Desk::new(context)), http1, http2 }
    }
}

impl Door for HttpDoor {
    async fn serve(&self, connection: Connection) {
        let Connection { mut stream, peer, seat, drain } = connection;
        let bounds = &self.desk.context.config.bounds;
        let mut read = BytesMut::with_capacity(FIRST_READ);
        let Some(spoken) = protocol(&mut stream, &mut read, &seat, &drain, bounds).await else {
            return;
        };
        let pulse = Pulse::new(seat);
        let is_http1 = spoken == Protocol::Http1;
        let wire = TokioIo::new(Wire::new(stream, read.freeze(), is_http1, pulse.clone()));
        let visit = Arc::new(Visit::new(self.desk.clone(), pulse.clone(), drain.clone(), peer));
        let service = service_fn(|request| {
            let (visit, busy) = (visit.clone(), visit.pulse().request());
            async move {
                let answer = visit.answer(request).await;
                drop(busy);
                Ok::<_, std::convert::Infallible>(answer)
            }
        });
        let ended = match spoken {
            Protocol::Http1 => {
                attend(self.http1.serve_connection(wire, service), &pulse, &drain, bounds).await
            }
            Protocol::Http2 => {
                attend(self.http2.serve_connection(wire, service), &pulse, &drain, bounds).await
            }
        };
        if let (Ended::Finished, Some(stream)) = (ended, pulse.take_stream()) {
            stream.close().await;
        }
    }
}
