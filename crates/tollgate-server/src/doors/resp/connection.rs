//! The loop of a connection: read all that is there, run it, send the replies in one write.

use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::SharedState;
use super::idle_timeout::{IdleTimeout, QUIET_MS, TimeoutVerdict};
use super::read_buffer::ReadBuffer;
use super::session::{NextStep, RespSession};
use crate::config::Bounds;
use crate::net::{Connection, ConnectionSlot, Drain, Stream};
use crate::server::Context;

/// The number of reads between checks for draining, for clients that never pause.
const READS_PER_DRAIN_CHECK: u32 = 32;
/// The maximum number of reads after draining has begun.
const MAX_FINAL_READS: u32 = 64;
/// The time within which commands that were sent before the drain arrive.
const FINAL_READ_TIMEOUT: Duration = Duration::from_millis(20);

/// Serves a connection until it closes.
pub(super) async fn serve(context: &Context, shared: &Arc<SharedState>, connection: Connection) {
    let Connection { stream, peer, slot, drain } = connection;
    let peer = peer.map(|peer| peer.ip().to_canonical());
    let client = RespConnection::new(context, shared, stream, peer);
    let evicted = pin!(slot.evicted());
    if let Some(stream) = client.run(evicted, &slot, &drain).await {
        stream.close().await;
    }
}

/// One client connection of the RESP door.
struct RespConnection {
    stream: Stream,
    input: ReadBuffer,
    session: RespSession,
    idle_timeout: IdleTimeout,
    bounds: Bounds,
}

/// The way to end a connection: close it gracefully, or drop it.
enum RespEnd {
    Close,
    Drop,
}

impl RespConnection {
    fn new(
        context: &Context,
        shared: &Arc<SharedState>,
        stream: Stream,
        peer: Option<IpAddr>,
    ) -> RespConnection {
        let bounds = context.config.bounds;
        let session = RespSession::new(context.clone(), shared.clone(), peer);
        RespConnection {
            stream,
            input: ReadBuffer::default(),
            session,
            idle_timeout: IdleTimeout::new(&bounds),
            bounds,
        }
    }

    /// Serves until the client leaves, the slot is evicted or the server drains.
    ///
    /// Returns the stream if it should be closed gracefully.
    async fn run(
        mut self,
        mut evicted: Pin<&mut impl Future<Output = ()>>,
        slot: &ConnectionSlot,
        drain: &Drain,
    ) -> Option<Stream> {
        let mut closing = pin!(drain.closing());
        let mut reads = 0_u32;
        loop {
            let max_bytes = self.session.bounds().bytes;
            let (input, stream) = (&mut self.input, &mut self.stream);
            let read = tokio::select! {
                biased;
                read = poll_fn(|context| input.poll_read(stream, max_bytes, context)) => read,
                () = evicted.as_mut() => return None,
                () = closing.as_mut() => break,
                () = self.idle_timeout.due() => match self.check_timeouts(slot) {
                    TimeoutVerdict::KeepOpen => continue,
                    TimeoutVerdict::Close => return None,
                },
            };
            slot.touch();
            let result = match read {
                Ok(1..) => {
                    let _request = slot.start_request();
                    self.run_commands().await
                }
                Ok(0) | Err(_) => Err(RespEnd::Drop),
            };
            match result {
                Ok(()) => {}
                Err(RespEnd::Close) => return Some(self.stream),
                Err(RespEnd::Drop) => return None,
            }
            let buffered = self.buffer_bytes();
            self.idle_timeout.record_read(self.input.is_partial(), buffered);
            reads = reads.wrapping_add(1);
            if reads.is_multiple_of(READS_PER_DRAIN_CHECK) && drain.is_closing() {
                break;
            }
        }
        match self.run_final_commands().await {
            Ok(()) | Err(RespEnd::Close) => Some(self.stream),
            Err(RespEnd::Drop) => None,
        }
    }

    /// Runs the commands that the client sent before it could notice the drain.
    async fn run_final_commands(&mut self) -> Result<(), RespEnd> {
        for _ in 0..MAX_FINAL_READS {
            let max_bytes = self.session.bounds().bytes;
            let (input, stream) = (&mut self.input, &mut self.stream);
            let read = poll_fn(|context| input.poll_read(stream, max_bytes, context));
            match tokio::time::timeout(FINAL_READ_TIMEOUT, read).await {
                Ok(Ok(1..)) => self.run_commands().await?,
                Ok(Ok(0) | Err(_)) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Runs all complete commands and sends their replies.
    async fn run_commands(&mut self) -> Result<(), RespEnd> {
        loop {
            let (used, next) = self.session.run(self.input.received()).await;
            self.input.consume(used);
            let replies = &mut self.session.replies;
            if !replies.bytes().is_empty() {
                let sent = send(&mut self.stream, replies.bytes(), self.bounds.write_timeout).await;
                replies.clear();
                sent.map_err(|_| RespEnd::Drop)?;
            }
            match next {
                NextStep::Read => return Ok(()),
                NextStep::RunMore => {}
                NextStep::Close => return Err(RespEnd::Close),
            }
        }
    }

    /// Returns the size of the buffers, in bytes.
    fn buffer_bytes(&self) -> usize {
        self.input.capacity() + self.session.buffer_bytes()
    }

    /// Shrinks the buffers of a quiet connection and checks its timeouts.
    fn check_timeouts(&mut self, slot: &ConnectionSlot) -> TimeoutVerdict {
        let idle_ms = slot.idle_ms();
        if idle_ms >= QUIET_MS {
            self.input.shrink();
            self.session.replies.shrink();
        }
        self.idle_timeout.check(idle_ms, self.buffer_bytes())
    }
}

/// Sends all bytes, which the client must read within `time_limit`.
async fn send(stream: &mut Stream, bytes: &[u8], time_limit: Duration) -> io::Result<()> {
    // The kernel takes most replies at once, and then no timer is needed.
    let sent = poll_fn(|context| {
        let mut stream = Pin::new(&mut *stream);
        match stream.as_mut().poll_write(context, bytes) {
            Poll::Ready(Ok(sent)) => match stream.poll_flush(context) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok((sent, true))),
                Poll::Pending => Poll::Ready(Ok((sent, false))),
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Ready(Ok((0, false))),
        }
    });
    let (sent, flushed) = sent.await?;
    if flushed && sent == bytes.len() {
        return Ok(());
    }
    let rest = async {
        stream.write_all(&bytes[sent..]).await?;
        stream.flush().await
    };
    match tokio::time::timeout(time_limit, rest).await {
        Ok(sent) => sent,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl ReadBuffer {
    /// Reads once, as much as fits into the buffer.
    fn poll_read(
        &mut self,
        stream: &mut Stream,
        max_bytes: usize,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut space = ReadBuf::new(self.unfilled(max_bytes));
        let polled = Pin::new(stream).poll_read(context, &mut space);
        let read = space.filled().len();
        self.advance(read);
        polled.map_ok(|()| read)
    }
}
