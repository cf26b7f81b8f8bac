//! Interim responses (1xx) on an HTTP/1.1 connection, such as `103 Early Hints`.
//!
//! hyper sends one response for each request and has no way to send an interim one before it. The
//! stream below hyper can: hyper flushes its stream only when it has nothing left to write, and it
//! answers one request after the other. So an interim response that waits here is written on the
//! next flush, and the handler of its request returns its own response only after that.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::io::AsyncWrite;

/// The maximum size of the interim responses of one request, in bytes.
const MAX_INTERIM_BYTES: usize = 32 << 10;

/// The interim responses of one connection that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct InterimQueue {
    /// Whether there are bytes to write.
    is_waiting: AtomicBool,
    bytes: Mutex<InterimBytes>,
}

#[derive(Debug, Default)]
struct InterimBytes {
    /// Whether a request is being answered whose interim responses may be sent.
    is_open: bool,
    encoded: Vec<u8>,
    written: usize,
    /// The number of bytes that the request has had so far.
    total: usize,
    handler: Option<Waker>,
}

impl InterimQueue {
    /// Accepts interim responses of the current request.
    pub(crate) fn open(&self) {
        let mut bytes = self.bytes.lock();
        (bytes.is_open, bytes.total) = (true, 0);
    }

    /// Adds an interim response. It is dropped if the request has had too many, or has its response.
    pub(crate) fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let mut bytes = self.bytes.lock();
        let before = bytes.encoded.len();
        if !bytes.is_open {
            return;
        }
        let reason = status.canonical_reason().unwrap_or("Interim");
        let encoded = &mut bytes.encoded;
        encoded.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
        for (name, value) in headers {
            // Neither contains a line end.
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                encoded.extend_from_slice(part);
            }
        }
        encoded.extend_from_slice(b"\r\n");
        let added = encoded.len() - before;
        if bytes.total + added > MAX_INTERIM_BYTES {
            bytes.encoded.truncate(before);
            return;
        }
        bytes.total += added;
        self.is_waiting.store(true, Ordering::Release);
    }

    /// Waits until the stream has written all interim responses, and accepts no more. The response
    /// of the request must not be returned before.
    pub(crate) async fn finish(&self) {
        poll_fn(|context| {
            let mut bytes = self.bytes.lock();
            bytes.is_open = false;
            match self.is_waiting.load(Ordering::Acquire) {
                true => {
                    bytes.handler = Some(context.waker().clone());
                    Poll::Pending
                }
                false => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Writes the rest of what is written in part. hyper must not write anything in between, such as
    /// `100 Continue`, which it sends when it likes.
    pub(super) fn poll_rest<S: AsyncWrite + Unpin>(
        &self,
        context: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        if !self.is_waiting.load(Ordering::Acquire) || self.bytes.lock().written == 0 {
            return Poll::Ready(Ok(()));
        }
        self.poll_write(context, stream)
    }

    /// Writes what waits, between two messages of hyper.
    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &self,
        context: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<io::Result<()>> {
        if !self.is_waiting.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        let bytes = &mut *self.bytes.lock();
        while bytes.written < bytes.encoded.len() {
            let rest = &bytes.encoded[bytes.written..];
            match ready!(Pin::new(&mut *stream).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => bytes.written += written,
            }
        }
        bytes.encoded = Vec::new();
        bytes.written = 0;
        self.is_waiting.store(false, Ordering::Release);
        bytes.handler.take().into_iter().for_each(Waker::wake);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderValue, LINK};

    use super::*;

    fn hints() -> HeaderMap {
        HeaderMap::from_iter([(LINK, HeaderValue::from_static("</a.css>; rel=preload"))])
    }

    fn written(queue: &InterimQueue) -> String {
        let mut stream = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(queue.poll_write(&mut context, &mut stream), Poll::Ready(Ok(()))));
        String::from_utf8(stream).unwrap()
    }

    #[test]
    fn interim_responses_are_written_once_and_only_during_a_request() {
        let queue = InterimQueue::default();
        queue.push(StatusCode::EARLY_HINTS, &hints());
        assert_eq!(written(&queue), "", "no request is being answered");
        queue.open();
        queue.push(StatusCode::EARLY_HINTS, &hints());
        queue.push(StatusCode::PROCESSING, &HeaderMap::new());
        let mut finished = std::pin::pin!(queue.finish());
        let mut context = Context::from_waker(Waker::noop());
        assert!(finished.as_mut().poll(&mut context).is_pending(), "not written yet");
        assert_eq!(
            written(&queue),
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n\
             HTTP/1.1 102 Processing\r\n\r\n"
        );
        assert!(finished.as_mut().poll(&mut context).is_ready());
        queue.push(StatusCode::EARLY_HINTS, &hints());
        assert_eq!(written(&queue), "", "the request has its response");
    }

    #[test]
    fn nothing_comes_between_the_parts_of_an_interim_response() {
        let queue = InterimQueue::default();
        let mut context = Context::from_waker(Waker::noop());
        let (mut stream, mut client) = tokio::io::duplex(10);
        queue.open();
        queue.push(StatusCode::EARLY_HINTS, &hints());
        assert!(queue.poll_rest(&mut context, &mut stream).is_ready(), "nothing is written yet");
        assert!(queue.poll_write(&mut context, &mut stream).is_pending(), "ten bytes fit");
        let mut sent = Vec::new();
        while queue.poll_rest(&mut context, &mut stream).is_pending() {
            let mut part = [0; 10];
            let mut into = tokio::io::ReadBuf::new(&mut part);
            let read =
                tokio::io::AsyncRead::poll_read(Pin::new(&mut client), &mut context, &mut into);
            assert!(read.is_ready());
            sent.extend_from_slice(into.filled());
        }
        assert!(sent.len() > 40, "most of it was read: {sent:?}");
        assert!(queue.poll_rest(&mut context, &mut stream).is_ready());
    }

    #[test]
    fn the_interim_responses_of_a_request_are_bounded() {
        let queue = InterimQueue::default();
        queue.open();
        (0..10_000).for_each(|_| queue.push(StatusCode::EARLY_HINTS, &hints()));
        let sent = written(&queue);
        assert!(sent.len() <= MAX_INTERIM_BYTES && sent.ends_with("\r\n\r\n"));
        queue.open();
        queue.push(StatusCode::EARLY_HINTS, &hints());
        assert!(
            written(&queue).starts_with("HTTP/1.1 103"),
            "the next request may have some again"
        );
    }
}
