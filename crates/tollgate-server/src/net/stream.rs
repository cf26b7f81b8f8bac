//! The bytes of a connection, whatever it runs over.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// How long the other side has to notice that we are done.
const LINGER: Duration = Duration::from_secs(1);
/// What it may go on sending meanwhile, in bytes: more than was on its way means no good.
const STRAGGLING: usize = 4 << 20;

/// The bytes of a connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Whether others can read what is said.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Ends the connection without a reset: says that nothing more comes, and reads on until the
    /// other side has understood. A close with unread bytes would make the system reset it, and the
    /// last answer could be lost with that.
    pub(crate) async fn close(mut self) {
        // Not in the future itself: every connection would hold it from its beginning.
        let mut rest = vec![0; 4096];
        let goodbye = async {
            self.shutdown().await?;
            let mut straggling = 0;
            while straggling < STRAGGLING {
                match self.read(&mut rest).await? {
                    0 => break,
                    length => straggling += length,
                }
            }
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LINGER, goodbye).await;
    }
}

/// Runs the same method of whichever stream it is.
macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Tcp(tcp) => {
                let $stream = Pin::new(tcp);
                $call
            }
            Stream::Unix(unix) => {
                let $stream = Pin::new(unix);
                $call
            }
            Stream::Tls(tls) => {
                let $stream = Pin::new(&mut **tls);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_read(context, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write(context, from))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => stream.poll_write_vectored(context, from))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(tcp) => tcp.is_write_vectored(),
            Stream::Unix(unix) => unix.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => stream.poll_shutdown(context))
    }
}
