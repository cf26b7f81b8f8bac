//! The loop of a connection: read what is there, answer all of it, send the answers at once.

use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{self, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::input::Input;
use super::session::{Next, Session};
use super::vigil::{QUIET_MS, Verdict, Vigil};
use crate::config::Bounds;
use crate::net::{Connection, Drain, Seat, Stream};
use crate::server::Context;

/// A client that never pauses is asked so often whether the server is closing.
const READS_BETWEEN_LOOKS: u32 = 32;
/// What a closing server still reads of a client that goes on sending.
const LAST_READS: u32 = 64;
/// What was sent in time is heard of by then.
const LAST_MOMENT: Duration = Duration::from_millis(20);

/// Serves a connection to its end.
pub(super) async fn serve(context: &Context, connection: Connection) {
    let Connection { stream, peer, seat, drain } = connection;
    let peer = peer.map(|peer| peer.ip().to_canonical());
    let talk = Talk::new(context, stream, peer);
    let wanted = pin!(seat.wanted());
    if let Some(stream) = talk.until(wanted, &seat, &drain).await {
        stream.close().await;
    }
}

struct Talk {
    stream: Stream,
    input: Input,
    session: Session,
    vigil: Vigil,
    bounds: Bounds,
}

/// Why it does not go on. Either the connection is to be closed in good order, or dropped.
enum End {
    Close,
    Drop,
}

impl Talk {
    fn new(context: &Context, stream: Stream, peer: Option<IpAddr>) -> Talk {
        let bounds = context.config.bounds;
        let session = Session::new(context.clone(), peer);
        Talk { stream, input: Input::default(), session, vigil: Vigil::new(&bounds), bounds }
    }

    /// Talks until the place is wanted, the server drains or the client ends it; the stream if it
    /// is to be closed in good order.
    async fn until(
        mut self,
        mut wanted: Pin<&mut impl Future<Output = ()>>,
        seat: &Seat,
        drain: &Drain,
    ) -> Option<Stream> {
        let mut closing = pin!(drain.closing());
        let mut reads = 0_u32;
        loop {
            let most = self.session.bounds().bytes;
            let (input, stream) = (&mut self.input, &mut self.stream);
            let read = tokio::select! {
                biased;
                read = poll_fn(|context| input.poll_read(stream, most, context)) => read,
                () = wanted.as_mut() => return None,
                () = closing.as_mut() => break,
                () = self.vigil.due() => match self.look(seat) {
                    Verdict::Stay => continue,
                    Verdict::Leave => return None,
                },
            };
            seat.heard();
            let answered = async {
                match read {
                    Ok(1..) => self.answer().await,
                    Ok(0) | Err(_) => Err(End::Drop),
                }
            };
            // Somebody who does not read must not keep the place either.
            let answered = tokio::select! {
                biased;
                answered = answered => answered,
                () = wanted.as_mut() => return None,
            };
            match answered {
                Ok(()) => {}
                Err(End::Close) => return Some(self.stream),
                Err(End::Drop) => return None,
            }
            let held = self.held();
            self.vigil.heard(self.input.is_partial(), held);
            reads = reads.wrapping_add(1);
            if reads.is_multiple_of(READS_BETWEEN_LOOKS) && drain.is_closing() {
                break;
            }
        }
        match self.last_words().await {
            Ok(()) | Err(End::Close) => Some(self.stream),
            Err(End::Drop) => None,
        }
    }

    /// Answers what has come by now, some of it being with the system or on its way from there.
    async fn last_words(&mut self) -> Result<(), End> {
        for _ in 0..LAST_READS {
            let most = self.session.bounds().bytes;
            let (input, stream) = (&mut self.input, &mut self.stream);
            let read = poll_fn(|context| input.poll_read(stream, most, context));
            match tokio::time::timeout(LAST_MOMENT, read).await {
                Ok(Ok(1..)) => self.answer().await?,
                Ok(Ok(0) | Err(_)) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Answers all commands that are complete.
    async fn answer(&mut self) -> Result<(), End> {
        loop {
            let (used, next) = self.session.answer(self.input.received()).await;
            self.input.consume(used);
            let replies = &mut self.session.replies;
            if !replies.bytes().is_empty() {
                let sent = send(&mut self.stream, replies.bytes(), self.bounds.write_timeout).await;
                replies.clear();
                sent.map_err(|_| End::Drop)?;
            }
            match next {
                Next::Read => return Ok(()),
                Next::Answer => {}
                Next::Close => return Err(End::Close),
            }
        }
    }

    /// The memory of its buffers.
    fn held(&self) -> usize {
        self.input.capacity() + self.session.replies.capacity()
    }

    /// A moment has come at which something may have to be done about a silent client.
    fn look(&mut self, seat: &Seat) -> Verdict {
        let silent_ms = seat.silent_ms();
        if silent_ms >= QUIET_MS {
            self.input.shrink();
            self.session.replies.shrink();
        }
        self.vigil.look(silent_ms, self.held())
    }
}

/// Sends everything. Who does not read it in time is cut off.
async fn send(stream: &mut Stream, bytes: &[u8], patience: Duration) -> io::Result<()> {
    // Most often the system takes all of it at once, and no timer is needed.
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
    match tokio::time::timeout(patience, rest).await {
        Ok(sent) => sent,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl Input {
    /// Reads once, as much as there is room for.
    fn poll_read(
        &mut self,
        stream: &mut Stream,
        most: usize,
        context: &mut task::Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(self.room(most));
        let polled = Pin::new(stream).poll_read(context, &mut room);
        let read = room.filled().len();
        self.add(read);
        polled.map_ok(|()| read)
    }
}
