//! The activity of an HTTP connection: requests under way, stalled readers, broken requests.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;

use super::frame_scanner::{HeadProgress, HeadTimer};
use super::interim::InterimQueue;
use super::request_guard::Ambiguity;
use super::stream_task::StreamProgress;
use crate::net::{ConnectionSlot, Drain, Stream};

/// The size of the pieces in which a response body is given to a client of HTTP/2: one frame each.
const PIECE_BYTES: usize = 16 << 10;

/// The activity of one connection, from which its timeouts follow.
///
/// Updating it is cheap: a timer is set only when something does not finish at once.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    pub(crate) slot: ConnectionSlot,
    drain: Drain,
    /// The number of requests that came so far.
    requests: AtomicU32,
    /// The number of the request whose head is ambiguous, and why.
    ambiguity: OnceLock<(u32, Ambiguity)>,
    /// Whether bytes of HTTP/1.1 came that do not make a request yet.
    pub(super) head_started: AtomicBool,
    /// Whether the client does not read what it is sent.
    pub(super) write_blocked: AtomicBool,
    /// The number of bytes that were written.
    written_bytes: AtomicU64,
    /// The progress of heads on HTTP/2.
    pub(super) heads: HeadProgress,
    /// Whether the connection has switched to another protocol than HTTP.
    upgraded: AtomicBool,
    /// The interim responses of the current request on HTTP/1.1.
    pub(crate) interim: InterimQueue,
    /// The stream, once hyper has dropped it.
    pub(super) returned_stream: Mutex<Option<Stream>>,
}

/// The event that a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitingFor {
    /// The next request, or our own response.
    Request,
    /// The rest of a request head.
    Head,
    /// The client, which must read what was sent.
    Reader,
}

impl ConnectionActivity {
    pub(crate) fn new(slot: ConnectionSlot, drain: Drain) -> Arc<ConnectionActivity> {
        Arc::new(ConnectionActivity {
            slot,
            drain,
            requests: AtomicU32::new(0),
            ambiguity: OnceLock::new(),
            head_started: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            written_bytes: AtomicU64::new(0),
            heads: HeadProgress::default(),
            upgraded: AtomicBool::new(false),
            interim: InterimQueue::default(),
            returned_stream: Mutex::default(),
        })
    }

    /// Records that a request came; it is active until the returned guard is dropped.
    pub(crate) fn start_request(self: &Arc<ConnectionActivity>) -> ActiveRequest {
        self.head_started.store(false, Ordering::Relaxed);
        self.slot.add_request();
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.slot.touch();
        ActiveRequest(self.clone())
    }

    /// Records that the head of the given request, counted from 1, is ambiguous.
    pub(super) fn set_ambiguity(&self, request: u32, ambiguity: Ambiguity) {
        let _ = self.ambiguity.set((request, ambiguity));
    }

    /// Returns why two servers could read the latest request differently, if they could.
    pub(crate) fn ambiguity(&self) -> Option<Ambiguity> {
        let (number, ambiguity) = self.ambiguity.get()?;
        (*number == self.requests.load(Ordering::Relaxed)).then_some(*ambiguity)
    }

    /// Returns whether a request is being answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.slot.is_busy()
    }

    /// Returns the event that the connection is waiting for.
    pub(crate) fn waiting_for(&self) -> WaitingFor {
        if self.write_blocked.load(Ordering::Relaxed) {
            WaitingFor::Reader
        } else if self.head_started.load(Ordering::Relaxed) && !self.is_busy() {
            WaitingFor::Head
        } else {
            WaitingFor::Request
        }
    }

    /// Records that bytes were written; only the stream of the connection does.
    pub(super) fn add_written(&self, bytes: usize) {
        let before = self.written_bytes.load(Ordering::Relaxed);
        self.written_bytes.store(before + bytes as u64, Ordering::Relaxed);
    }

    /// Returns the number of bytes that were written.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Returns `Ready` once a head of HTTP/2 has been unfinished for too long.
    pub(crate) fn poll_heads(&self, context: &mut Context<'_>, timer: &mut HeadTimer) -> Poll<()> {
        timer.poll(context, &self.heads)
    }

    /// Records that the connection switches to another protocol than HTTP.
    pub(crate) fn upgrade(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    /// Takes the stream, once hyper has dropped it.
    pub(crate) fn take_stream(&self) -> Option<Stream> {
        self.returned_stream.lock().take()
    }
}

/// A request that is being answered; dropping it ends the request.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionActivity>);

impl ActiveRequest {
    /// Returns whether the connection must close after this response.
    pub(super) fn is_leaving(&self) -> bool {
        self.0.drain.is_leaving()
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.slot.remove_request();
    }
}

pin_project! {
    /// A response body that keeps its request active until it is sent.
    ///
    /// On HTTP/2 it is given to the client in pieces, so that a client which takes a large part of it
    /// slowly is not mistaken for one that takes nothing.
    #[derive(Debug)]
    pub(super) struct TrackedBody<B> {
        #[pin]
        body: B,
        // The data that the client has not been given yet.
        rest: Bytes,
        // The progress of the stream; `None` on HTTP/1.1.
        progress: Option<Arc<StreamProgress>>,
        request: ActiveRequest,
    }
}

impl<B> TrackedBody<B> {
    pub(super) fn new(body: B, request: ActiveRequest) -> TrackedBody<B> {
        let progress = StreamProgress::current();
        progress.iter().for_each(|progress| progress.wait_for_client());
        TrackedBody { body, rest: Bytes::new(), progress, request }
    }
}

impl<B: Body<Data = Bytes>> Body for TrackedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let Some(progress) = this.progress else { return this.body.poll_frame(context) };
        if this.rest.is_empty() {
            match this.body.poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => *this.rest = data,
                    Err(other) => {
                        progress.wait_for_client();
                        return Poll::Ready(Some(Ok(other)));
                    }
                },
                Poll::Pending => {
                    progress.wait_for_source();
                    return Poll::Pending;
                }
                end => {
                    progress.wait_for_client();
                    return end;
                }
            }
        }
        progress.wait_for_client();
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        let upper = hint.upper();
        hint.set_lower(hint.lower() + rest);
        if let Some(upper) = upper {
            hint.set_upper(upper + rest);
        }
        hint
    }
}
