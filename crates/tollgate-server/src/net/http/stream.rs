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
use super::target_escape::escape;
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
    /// Bytes that are inspected, and did not fit into the buffer of the reader.
    inspected: Bytes,
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
            inspected: Bytes::new(),
            frames,
            guard: None,
            is_broken: false,
            activity,
        }
    }

    /// Adds a guard that detects ambiguous requests, with heads of at most this many bytes.
    pub(super) fn guarded(mut self, head_bytes: usize) -> HttpStream {
        self.guard = Some(RequestGuard::new(head_bytes));
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

    /// Escapes the characters that the guard found in a query, in bytes that were just read. What
    /// no longer fits is kept for the next read.
    #[cold]
    fn escape_query(&mut self, into: &mut ReadBuf<'_>, before: usize) {
        let Some(guard) = &mut self.guard else { return };
        let raw = guard.take_raw_query_bytes();
        let escaped = escape(&into.filled()[before..], &raw);
        into.set_filled(before);
        let fits = escaped.len().min(into.remaining());
        into.put_slice(&escaped[..fits]);
        self.inspected = Bytes::from(escaped).slice(fits..);
    }

    /// Writes the rest of an interim response that is written in part.
    fn poll_interim_rest(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        self.activity.interim.poll_rest(context, stream)
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
        if !self.inspected.is_empty() {
            let length = self.inspected.len().min(into.remaining());
            into.put_slice(&self.inspected.split_to(length));
            if self.inspected.is_empty() {
                // Frees the buffer.
                self.inspected = Bytes::new();
            }
            return Poll::Ready(Ok(()));
        }
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
            if self.guard.as_ref().is_some_and(RequestGuard::has_raw_query_bytes) {
                self.escape_query(into, before);
            }
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
        let result = match self.poll_interim_rest(context)? {
            Poll::Ready(()) => self.stream()?.poll_write(context, from),
            Poll::Pending => Poll::Pending,
        };
        self.record_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = match self.poll_interim_rest(context)? {
            Poll::Ready(()) => self.stream()?.poll_write_vectored(context, from),
            Poll::Pending => Poll::Pending,
        };
        self.record_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let stream = this.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let interim = this.activity.interim.poll_write(context, stream)?;
        let result = match interim {
            Poll::Ready(()) => Pin::new(stream).poll_flush(context),
            Poll::Pending => Poll::Pending,
        };
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
