//! Reads the body of a request before it is decided, within size, memory and time.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as _, Frame, Incoming};
use tokio::time::timeout;

use super::inspect_body::InspectError;
use super::upload::Upload;
use super::upstreams::UpstreamError;
use crate::net::{BodyBuffer, BodyBufferError, BodyMemory, BufferedBody};

/// The body of a request that is being read.
pub(super) struct BodyReader {
    body: Incoming,
    memory: BodyMemory,
    max_bytes: usize,
    /// The first part, which is copied only if more parts come.
    first: Bytes,
    parts: Option<BodyBuffer>,
    /// The part with which the body became longer than its maximum.
    excess: Option<Bytes>,
    trailers: Option<HeaderMap>,
    is_complete: bool,
}

/// The maximum times of a client that sends a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyTimeouts {
    /// The maximum pause between two parts.
    pub(super) pause: Duration,
    /// The maximum time of the whole body.
    pub(super) total: Duration,
}

impl BodyReader {
    pub(super) fn new(body: Incoming, memory: BodyMemory, max_bytes: usize) -> BodyReader {
        BodyReader {
            body,
            memory,
            max_bytes,
            first: Bytes::new(),
            parts: None,
            excess: None,
            trailers: None,
            is_complete: false,
        }
    }

    /// Reads what has already come; returns whether that is all that is to be read.
    pub(super) async fn read_received(&mut self) -> Result<bool, InspectError> {
        poll_fn(|context| {
            while !self.is_done() {
                match Pin::new(&mut self.body).poll_frame(context) {
                    Poll::Ready(frame) => self.accept(frame)?,
                    Poll::Pending => break,
                }
            }
            Poll::Ready(Ok(self.is_done()))
        })
        .await
    }

    /// Reads the rest of the body, until it is longer than its maximum.
    pub(super) async fn read_rest(&mut self, times: BodyTimeouts) -> Result<(), InspectError> {
        let late = |_| InspectError::Client(UpstreamError::SlowClient);
        if !self.first.is_empty() {
            // From now on the body waits for its client, so its memory is counted.
            self.push(Bytes::new())?;
        }
        let rest = async {
            while !self.is_done() {
                let frame = timeout(times.pause, self.body.frame()).await.map_err(late)?;
                self.accept(frame)?;
            }
            Ok(())
        };
        timeout(times.total, rest).await.map_err(late)?
    }

    /// Returns whether nothing more is read: the body is complete or too long.
    fn is_done(&self) -> bool {
        self.is_complete || self.excess.is_some()
    }

    fn accept(&mut self, frame: Option<hyper::Result<Frame<Bytes>>>) -> Result<(), InspectError> {
        let Some(frame) = frame else {
            self.is_complete = true;
            return Ok(());
        };
        let frame = frame.map_err(|_| InspectError::Client(UpstreamError::BadClient))?;
        match frame.into_data() {
            Ok(data) => self.push(data)?,
            Err(other) => self.trailers = other.into_trailers().ok(),
        }
        self.is_complete = self.excess.is_none() && self.body.is_end_stream();
        Ok(())
    }

    fn push(&mut self, data: Bytes) -> Result<(), InspectError> {
        if self.parts.is_none() && self.first.is_empty() && data.len() <= self.max_bytes {
            self.first = data;
            return Ok(());
        }
        let (memory, max_bytes) = (&self.memory, self.max_bytes);
        let parts = self.parts.get_or_insert_with(|| BodyBuffer::new(memory, max_bytes));
        let first = std::mem::take(&mut self.first);
        match parts.push(&first).and_then(|()| parts.push(&data)) {
            Ok(()) => Ok(()),
            Err(BodyBufferError::TooLarge) => {
                self.excess = Some(data);
                Ok(())
            }
            Err(BodyBufferError::NoMemory) => Err(InspectError::NoMemory),
        }
    }

    /// Returns the body that was not read yet.
    pub(super) fn into_rest(self) -> Incoming {
        self.body
    }

    /// Returns the complete body, unless it is too long, and the upload that forwards it.
    pub(super) fn finish(self) -> Result<(Option<Bytes>, Upload), InspectError> {
        let body = match self.parts {
            Some(parts) => parts.finish(),
            None => BufferedBody::reserved(self.first, &self.memory)
                .map_err(|_| InspectError::NoMemory)?,
        };
        let (bytes, reservation) = body.into_parts();
        let whole = self.is_complete.then(|| bytes.clone());
        let data = [Some(bytes), self.excess].into_iter().flatten();
        let mut ahead: VecDeque<_> =
            data.filter(|data| !data.is_empty()).map(Frame::data).collect();
        ahead.extend(self.trailers.map(Frame::trailers));
        let rest = (!self.is_complete).then_some(self.body);
        Ok((whole, Upload::of(ahead, rest, reservation)))
    }
}
