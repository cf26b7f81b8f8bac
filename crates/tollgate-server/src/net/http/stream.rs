//! The stream under an HTTP connection, which records what comes and goes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::HttpProtocol;
use super::activity::ConnectionActivity;
use super::frame_scanner::FrameScanner;
use super::request_guard::{GuardFinding, RequestGuard};
use crate::net::Stream;

/// A stream that HTTP is spoken on.
///
/// Dropping it does not close the stream but returns it to the [`ConnectionActivity`], and the
/// server closes it without a reset.
#[derive(Debug)]
pub(crate) struct HttpStream {
    stream: Option<Stream>,
    /// The bytes that were read to detect the protocol.
    read_ahead: Bytes,
    /// The scanner of frames on HTTP/2.
    frames: Option<FrameScanner>,
    guard: Option<RequestGuard>,
    /// Whether the bytes that come next could be read in two ways.
    is_broken: bool,
    activity: Arc<ConnectionActivity>,
}

impl HttpStream {
    pub(crate) fn new(
        stream: Stream,
        read_ahead: Bytes,
        protocol: HttpProtocol,
        activity: Arc<ConnectionActivity>,
    ) -> HttpStream {
        let frames = (protocol == HttpProtocol::Http2).then(FrameScanner::new);
        HttpStream {
            stream: Some(stream),
            read_ahead,
            frames,
            guard: None,
            is_broken: false,
            activity,
        }
    }

    /// Adds a guard that detects ambiguous requests.
    pub(super) fn guarded(mut self) -> HttpStream {
        self.guard = Some(RequestGuard::new());
        self
    }

    /// Records received bytes; returns how many at their end are dropped as ambiguous.
    fn record_read(&mut self, bytes: &[u8]) -> usize {
        if let Some(frames) = &mut self.frames {
            frames.scan(bytes);
            frames.publish(&self.activity.heads);
            return 0;
        }
        if !self.activity.is_busy() {
            self.activity.head_started.store(true, Ordering::Relaxed);
        }
        let Some(guard) = &mut self.guard else { return 0 };
        match guard.inspect(bytes) {
            _ if self.activity.is_upgraded() => self.guard = None,
            GuardFinding::Sound => {}
            GuardFinding::Head(request, ambiguity) => {
                self.activity.set_ambiguity(request, ambiguity);
            }
            GuardFinding::Body(ambiguous) => {
                self.is_broken = true;
                return ambiguous;
            }
        }
        0
    }

    fn record_write(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.activity.write_blocked.store(result.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(written)) = result {
            self.activity.add_written(written);
        }
        result
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for HttpStream {
    fn drop(&mut self) {
        *self.activity.returned_stream.lock() = self.stream.take();
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = into.filled().len();
        if self.read_ahead.is_empty() {
            ready!(self.stream()?.poll_read(context, into))?;
        } else {
            let length = self.read_ahead.len().min(into.remaining());
            into.put_slice(&self.read_ahead[..length]);
            self.read_ahead.advance(length);
            if self.read_ahead.is_empty() {
                // Frees the buffer, which would otherwise live as long as the connection.
                self.read_ahead = Bytes::new();
            }
        }
        if into.filled().len() > before {
            let ambiguous = self.record_read(&into.filled()[before..]);
            into.set_filled(into.filled().len() - ambiguous);
            if into.filled().len() == before {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = self.stream()?.poll_write(context, from);
        self.record_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.stream()?.poll_write_vectored(context, from);
        self.record_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.stream()?.poll_flush(context);
        self.activity.write_blocked.store(result.is_pending(), Ordering::Relaxed);
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.is_upgraded() {
            return self.stream()?.poll_shutdown(context);
        }
        // The server closes the returned stream without a reset, so this only flushes.
        self.poll_flush(context)
    }
}
