//! The activity of an HTTP connection: requests under way, stalled readers, broken requests.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use pin_project_lite::pin_project;

use super::request_guard::Ambiguity;
use crate::net::{ConnectionSlot, Drain, Stream};

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
    /// Whether bytes came that do not make a request yet.
    pub(super) head_started: AtomicBool,
    /// Whether the client does not read what it is sent.
    pub(super) write_blocked: AtomicBool,
    /// Whether the connection has switched to another protocol than HTTP.
    upgraded: AtomicBool,
    pub(super) stalled_bodies: StalledBodies,
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
            upgraded: AtomicBool::new(false),
            stalled_bodies: StalledBodies::default(),
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

/// The number of response bodies that wait for their client, by the interval in which that began.
///
/// A client of HTTP/2 can read from its connection and still take nothing of one response, because
/// it opens no window for that stream. Then no write is blocked and the connection is not idle, but
/// the response waits. Such bodies are counted in the interval in which they began to wait, so that
/// a body that waits for a whole interval is found without a timer or a list.
#[derive(Debug, Default)]
pub(super) struct StalledBodies {
    interval: AtomicU32,
    /// Waiting bodies that began in even and in odd intervals.
    waiting: [AtomicU32; 2],
}

/// The interval in which a body began to wait for its client, if it does.
#[derive(Debug, Default)]
struct WaitingSince(Option<u32>);

impl StalledBodies {
    /// Starts a new interval; returns whether a body has waited during all of the previous one.
    pub(super) fn start_interval(&self) -> bool {
        let next = self.interval.load(Ordering::Relaxed).wrapping_add(1);
        self.interval.store(next, Ordering::Relaxed);
        self.count_of(next).load(Ordering::Relaxed) > 0
    }

    /// Records that a body has given a frame to its client, and waits from now on.
    fn wait(&self, since: &mut WaitingSince) {
        let now = self.interval.load(Ordering::Relaxed);
        if since.0 != Some(now) {
            self.stop_waiting(since);
            since.0 = Some(now);
            self.count_of(now).fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that a body waits for its source instead of its client, or has ended.
    fn stop_waiting(&self, since: &mut WaitingSince) {
        if let Some(interval) = since.0.take() {
            self.count_of(interval).fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn count_of(&self, interval: u32) -> &AtomicU32 {
        &self.waiting[interval as usize % 2]
    }
}

pin_project! {
    /// A response body that keeps its request active until it is sent.
    #[derive(Debug)]
    pub(super) struct TrackedBody<B> {
        #[pin]
        body: B,
        progress: BodyProgress,
    }
}

/// The state of a response body: waiting for its client, or for its source.
#[derive(Debug)]
struct BodyProgress {
    request: ActiveRequest,
    since: WaitingSince,
}

impl BodyProgress {
    fn wait_for_client(&mut self) {
        self.request.0.stalled_bodies.wait(&mut self.since);
    }

    fn wait_for_source(&mut self) {
        self.request.0.stalled_bodies.stop_waiting(&mut self.since);
    }
}

impl Drop for BodyProgress {
    fn drop(&mut self) {
        self.wait_for_source();
    }
}

impl<B> TrackedBody<B> {
    pub(super) fn new(body: B, request: ActiveRequest) -> TrackedBody<B> {
        let mut progress = BodyProgress { request, since: WaitingSince::default() };
        progress.wait_for_client();
        TrackedBody { body, progress }
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = this.body.poll_frame(context);
        match frame.is_ready() {
            true => this.progress.wait_for_client(),
            false => this.progress.wait_for_source(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_body_that_waits_for_a_whole_interval_is_stalled() {
        let bodies = StalledBodies::default();
        let (mut slow, mut quick) = (WaitingSince::default(), WaitingSince::default());
        bodies.wait(&mut slow);
        bodies.wait(&mut quick);
        assert!(!bodies.start_interval(), "not yet");
        bodies.wait(&mut quick);
        assert!(bodies.start_interval(), "one has taken nothing since");
        bodies.stop_waiting(&mut slow);
        bodies.wait(&mut quick);
        assert!(!bodies.start_interval());
        bodies.stop_waiting(&mut quick);
        assert!(!bodies.start_interval() && !bodies.start_interval(), "no body waits");
    }
}
