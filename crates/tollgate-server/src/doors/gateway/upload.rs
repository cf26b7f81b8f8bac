//! Request bodies on their way to an upstream, and their progress.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::continue_gate::ContinueGate;
use super::interim_relay::InterimRelay;
use crate::clock;
use crate::net::BodyReservation;

/// The stage of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum UploadStage {
    /// The upstream has taken all data so far, and the client has sent no more.
    WaitsForClient,
    /// Data is there, and the upstream has not taken it.
    WaitsForUpstream,
    /// The upstream has taken the whole body.
    Done,
    /// The client left, or sent an invalid body.
    Broken,
}

/// The progress of an upload, shared by its sender and the deadline of the response.
#[derive(Debug)]
pub(super) struct UploadProgress {
    stage: AtomicU8,
    moved_ms: AtomicU64,
    /// The total time that the gateway waited for the client before the current wait.
    waited_ms: AtomicU64,
    /// The number of bytes that the client has sent.
    received_bytes: AtomicU64,
}

impl UploadProgress {
    fn new() -> Arc<UploadProgress> {
        Arc::new(UploadProgress {
            stage: AtomicU8::new(UploadStage::WaitsForUpstream as u8),
            moved_ms: AtomicU64::new(clock::monotonic_ms()),
            waited_ms: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
        })
    }

    pub(super) fn stage(&self) -> UploadStage {
        match self.stage.load(Ordering::Relaxed) {
            0 => UploadStage::WaitsForClient,
            1 => UploadStage::WaitsForUpstream,
            2 => UploadStage::Done,
            _ => UploadStage::Broken,
        }
    }

    /// Returns the time since the last progress, in milliseconds.
    pub(super) fn still_ms(&self) -> u64 {
        clock::monotonic_ms().saturating_sub(self.moved_ms.load(Ordering::Relaxed))
    }

    /// Returns how long the gateway still waits for the client: at most `pause` for the next part,
    /// and in all no longer than `pause` and the time that the received bytes take at `min_rate`.
    pub(super) fn patience(&self, pause: Duration, min_rate: u32) -> Duration {
        let still = Duration::from_millis(self.still_ms());
        let left = pause.saturating_sub(still);
        if min_rate == 0 {
            return left;
        }
        let received = self.received_bytes.load(Ordering::Relaxed);
        let earned = Duration::from_secs(received / u64::from(min_rate));
        let waited = Duration::from_millis(self.waited_ms.load(Ordering::Relaxed)) + still;
        left.min(pause.saturating_add(earned).saturating_sub(waited))
    }

    fn received(&self, frame: &Frame<Bytes>) {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn moved(&self, stage: UploadStage) {
        let now_ms = clock::monotonic_ms();
        let before_ms = self.moved_ms.swap(now_ms, Ordering::Relaxed);
        if self.stage() == UploadStage::WaitsForClient {
            self.waited_ms.fetch_add(now_ms.saturating_sub(before_ms), Ordering::Relaxed);
        }
        self.stage.store(stage as u8, Ordering::Relaxed);
    }
}

/// The body of a request on its way to an upstream.
#[derive(Debug)]
pub(super) struct Upload {
    /// The frames that were read before the decision.
    ahead: VecDeque<Frame<Bytes>>,
    body: Option<Incoming>,
    /// The progress; `None` if the body is empty.
    progress: Option<Arc<UploadProgress>>,
    /// The gate that the body waits behind.
    gate: Option<ContinueGate>,
    interim: InterimRelay,
    _reservation: Option<BodyReservation>,
}

impl Upload {
    pub(super) fn new(body: Incoming) -> Upload {
        if body.is_end_stream() {
            return Upload::empty();
        }
        let progress = Some(UploadProgress::new());
        Upload { body: Some(body), progress, ..Upload::empty() }
    }

    /// Creates an upload whose body was read in part or completely.
    pub(super) fn of(
        ahead: VecDeque<Frame<Bytes>>,
        rest: Option<Incoming>,
        reservation: Option<BodyReservation>,
    ) -> Upload {
        if ahead.is_empty() && rest.is_none() {
            return Upload::empty();
        }
        Upload {
            ahead,
            body: rest,
            progress: Some(UploadProgress::new()),
            _reservation: reservation,
            ..Upload::empty()
        }
    }

    /// Creates an upload without a body.
    pub(super) fn empty() -> Upload {
        Upload {
            ahead: VecDeque::new(),
            body: None,
            progress: None,
            gate: None,
            interim: InterimRelay::default(),
            _reservation: None,
        }
    }

    /// Returns whether the body has not been read at all.
    pub(super) fn is_unread(&self) -> bool {
        self.ahead.is_empty() && self.body.as_ref().is_some_and(|body| !body.is_end_stream())
    }

    /// Holds the body back until a gate opens.
    pub(super) fn wait_behind(&mut self, gate: ContinueGate) {
        self.gate = Some(gate);
    }

    /// Lets the body pass without a signal.
    pub(super) fn open_gate(&mut self) {
        self.gate = None;
    }

    /// Sets the receivers of interim responses.
    pub(super) fn report_to(&mut self, interim: InterimRelay) {
        self.interim = interim;
    }

    /// Returns the receivers of interim responses.
    pub(super) fn interim(&self) -> &InterimRelay {
        &self.interim
    }

    /// Returns the unread rest of the body.
    pub(super) fn into_rest(self) -> Option<Incoming> {
        self.body
    }

    /// Creates an upload of a complete body and its trailers.
    pub(super) fn whole(body: Bytes, trailers: HeaderMap) -> Upload {
        let mut ahead = VecDeque::new();
        if !body.is_empty() {
            ahead.push_back(Frame::data(body));
        }
        if !trailers.is_empty() {
            ahead.push_back(Frame::trailers(trailers));
        }
        if ahead.is_empty() {
            return Upload::empty();
        }
        Upload { ahead, progress: Some(UploadProgress::new()), ..Upload::empty() }
    }

    pub(super) fn progress(&self) -> Option<Arc<UploadProgress>> {
        self.progress.clone()
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if let Some(gate) = &mut this.gate {
            ready!(gate.poll(context));
            this.gate = None;
        }
        if let (Some(frame), Some(progress)) = (this.ahead.pop_front(), &this.progress) {
            let is_last = this.ahead.is_empty() && this.body.is_none();
            progress.moved(if is_last { UploadStage::Done } else { UploadStage::WaitsForUpstream });
            return Poll::Ready(Some(Ok(frame)));
        }
        let (Some(body), Some(progress)) = (&mut this.body, &this.progress) else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(&mut *body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            progress.received(frame);
        }
        match &frame {
            Poll::Pending if progress.stage() != UploadStage::WaitsForClient => {
                progress.moved(UploadStage::WaitsForClient);
            }
            Poll::Pending => {}
            Poll::Ready(None) => progress.moved(UploadStage::Done),
            Poll::Ready(Some(Err(_))) => progress.moved(UploadStage::Broken),
            Poll::Ready(Some(Ok(_))) if body.is_end_stream() => progress.moved(UploadStage::Done),
            Poll::Ready(Some(Ok(_))) => progress.moved(UploadStage::WaitsForUpstream),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let ahead: usize = self.ahead.iter().filter_map(Frame::data_ref).map(Bytes::len).sum();
        let lower = hint.lower() + ahead as u64;
        if self.ahead.iter().any(Frame::is_trailers) {
            // HTTP/1.1 sends no trailers after a body of known length.
            hint = SizeHint::default();
        } else if let Some(upper) = hint.upper() {
            hint.set_upper(upper + ahead as u64);
        }
        hint.set_lower(lower);
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_what_the_client_sends() {
        let pause = Duration::from_secs(30);
        let progress = UploadProgress::new();
        progress.waited_ms.store(29_000, Ordering::Relaxed);
        let left = progress.patience(pause, 100);
        assert!(left <= Duration::from_secs(1), "a byte every second: {left:?}");
        assert!(progress.patience(pause, 0) > Duration::from_secs(1), "only pauses count");
        progress.received(&Frame::data(Bytes::from(vec![0; 10_000])));
        assert!(progress.patience(pause, 100) > Duration::from_secs(1), "100 seconds were earned");
        progress.waited_ms.store(130_000, Ordering::Relaxed);
        assert!(progress.patience(pause, 100).is_zero());
    }
}
