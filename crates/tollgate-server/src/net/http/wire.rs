//! The bytes under a connection of HTTP, and what can be told from how they come and go.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::guard::{Found, Guard, Unsound};
use super::turns::Turns;
use crate::net::{Drain, Seat, Stream};

/// How a connection is doing. Cheap to keep up to date: timers are only set once something is not
/// done at once.
#[derive(Debug)]
pub(crate) struct Pulse {
    pub(crate) seat: Seat,
    drain: Drain,
    /// Requests that are being answered.
    busy: AtomicU32,
    /// Requests that came.
    requests: AtomicU32,
    /// The number of the request whose head is unsound, if one is, and why.
    unsound: OnceLock<(u32, Unsound)>,
    /// Bytes came, and no request has come of them yet.
    begun: AtomicBool,
    /// The other side does not read what it is sent.
    blocked: AtomicBool,
    /// Something else than HTTP is spoken now.
    upgraded: AtomicBool,
    /// Bodies that wait for their readers.
    pub(super) turns: Turns,
    /// The stream, once HTTP is done with it.
    returned: Mutex<Option<Stream>>,
}

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The next request, or its own answer.
    Quiet,
    /// The rest of a request's head.
    Head,
    /// The other side to read.
    Reader,
}

impl Pulse {
    pub(crate) fn new(seat: Seat, drain: Drain) -> Arc<Pulse> {
        Arc::new(Pulse {
            seat,
            drain,
            busy: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            unsound: OnceLock::new(),
            begun: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            turns: Turns::default(),
            returned: Mutex::default(),
        })
    }

    /// A request has come; it is being answered until what this returns is dropped.
    pub(crate) fn request(self: &Arc<Pulse>) -> Busy {
        self.begun.store(false, Ordering::Relaxed);
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.seat.heard();
        Busy(self.clone())
    }

    /// Why the head of the request that just came could be read differently, if it could.
    pub(crate) fn unsound(&self) -> Option<Unsound> {
        let (number, unsound) = self.unsound.get()?;
        (*number == self.requests.load(Ordering::Relaxed)).then_some(*unsound)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn waiting(&self) -> Waiting {
        if self.blocked.load(Ordering::Relaxed) {
            Waiting::Reader
        } else if self.begun.load(Ordering::Relaxed) && !self.is_busy() {
            Waiting::Head
        } else {
            Waiting::Quiet
        }
    }

    /// Something else than HTTP is spoken from now on.
    pub(crate) fn upgrade(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    /// The stream, once HTTP is done with it.
    pub(crate) fn take_stream(&self) -> Option<Stream> {
        self.returned.lock().take()
    }
}

/// A request is being answered.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Pulse>);

impl Busy {
    pub(super) fn pulse(&self) -> &Pulse {
        &self.0
    }
}

impl Busy {
    /// Whether the connection is to end with this answer.
    pub(super) fn is_leaving(&self) -> bool {
        self.0.drain.is_leaving()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that HTTP is spoken on. Ending it is left to who gets it back.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Option<Stream>,
    /// What was read to see which protocol is spoken.
    read_ahead: Bytes,
    /// Whether unfinished heads are looked for: on HTTP/2 bytes need not be of a request.
    watches_heads: bool,
    /// Looks at what comes, where that is wanted.
    guard: Option<Guard>,
    /// What comes next could be read differently.
    is_broken: bool,
    pulse: Arc<Pulse>,
}

impl Wire {
    pub(crate) fn new(
        stream: Stream,
        read_ahead: Bytes,
        watches_heads: bool,
        pulse: Arc<Pulse>,
    ) -> Wire {
        Wire {
            stream: Some(stream),
            read_ahead,
            watches_heads,
            guard: None,
            is_broken: false,
            pulse,
        }
    }

    /// The same, and requests that could be read differently are told apart.
    pub(crate) fn guarded(mut self) -> Wire {
        self.guard = Some(Guard::new());
        self
    }

    /// Bytes came; how many of them are left out because they could be read differently.
    fn came(&mut self, bytes: &[u8]) -> usize {
        if self.watches_heads && !self.pulse.is_busy() {
            self.pulse.begun.store(true, Ordering::Relaxed);
        }
        let Some(guard) = &mut self.guard else { return 0 };
        match guard.look(bytes) {
            _ if self.pulse.upgraded.load(Ordering::Relaxed) => self.guard = None,
            Found::Sound => {}
            Found::Head(number, unsound) => drop(self.pulse.unsound.set((number, unsound))),
            Found::Body(wrong) => {
                self.is_broken = true;
                return wrong;
            }
        }
        0
    }

    fn wrote<T>(&self, result: Poll<T>) -> Poll<T> {
        self.pulse.blocked.store(result.is_pending(), Ordering::Relaxed);
        result
    }

    fn stream(&mut self) -> io::Result<Pin<&mut Stream>> {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        *self.pulse.returned.lock() = self.stream.take();
    }
}

impl AsyncRead for Wire {
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
                // Not kept as long as the connection.
                self.read_ahead = Bytes::new();
            }
        }
        if into.filled().len() > before {
            let wrong = self.came(&into.filled()[before..]);
            into.set_filled(into.filled().len() - wrong);
            if into.filled().len() == before {
                return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = self.stream()?.poll_write(context, from);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = self.stream()?.poll_write_vectored(context, from);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = self.stream()?.poll_flush(context);
        self.wrote(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pulse.upgraded.load(Ordering::Relaxed) {
            return self.stream()?.poll_shutdown(context);
        }
        // Whoever gets the stream back ends it, without a reset.
        self.poll_flush(context)
    }
}
