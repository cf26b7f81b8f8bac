//! Reads the body of a request that the server answers itself, within size, time and memory.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use tokio::time::timeout;

use crate::net::{BodyBuffer, BodyBufferError, BodyMemory, BufferedBody};

/// The reason why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadBodyError {
    /// The body is longer than its maximum, in bytes.
    TooLarge(usize),
    /// The client has no memory left for bodies.
    NoMemory,
    /// The body did not come in time.
    Late,
    /// The body ended early, or its framing is wrong.
    Malformed,
}

/// Reads a body of at most `max_bytes`, without a copy where it came in one piece.
///
/// The rest of a body that does not come with its head must come within `time_limit`, and takes from
/// the memory of its client.
pub(crate) async fn read_body<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    memory: &BodyMemory,
    max_bytes: usize,
    time_limit: Duration,
) -> Result<BufferedBody, ReadBodyError> {
    if body.is_end_stream() {
        return Ok(BufferedBody::default());
    }
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(ReadBodyError::TooLarge(max_bytes));
    }
    let first = poll_fn(|context| {
        // Polls once and needs no timer: most bodies come with their head.
        Poll::Ready(match Pin::new(&mut body).poll_frame(context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => Some(Ok(Frame::data(Bytes::new()))),
        })
    })
    .await;
    let first = match first {
        None => return Ok(BufferedBody::default()),
        Some(frame) => frame.map_err(|_| ReadBodyError::Malformed)?.into_data().unwrap_or_default(),
    };
    if first.len() > max_bytes {
        return Err(ReadBodyError::TooLarge(max_bytes));
    }
    if body.is_end_stream() {
        return Ok(first.into());
    }
    let rest = timeout(time_limit, read_rest(first, body, memory, max_bytes)).await;
    rest.unwrap_or(Err(ReadBodyError::Late))
}

async fn read_rest<B: Body<Data = Bytes> + Unpin>(
    first: Bytes,
    mut body: B,
    memory: &BodyMemory,
    max_bytes: usize,
) -> Result<BufferedBody, ReadBodyError> {
    let failed = |error| match error {
        BodyBufferError::TooLarge => ReadBodyError::TooLarge(max_bytes),
        BodyBufferError::NoMemory => ReadBodyError::NoMemory,
    };
    let mut buffer = BodyBuffer::new(memory, max_bytes);
    buffer.push(&first).map_err(failed)?;
    drop(first);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(|_| ReadBodyError::Malformed)?.into_data() {
            buffer.push(&data).map_err(failed)?;
        }
    }
    Ok(buffer.finish())
}
