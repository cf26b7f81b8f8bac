//! The byte stream of a connection: TCP, a Unix socket, or TLS over either.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// The time that the peer has to close its side after we have closed ours.
const LINGER: Duration = Duration::from_secs(1);
/// The maximum number of bytes that are read and dropped meanwhile.
const MAX_DISCARDED: usize = 4 << 20;

/// The byte stream of a connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    /// Returns whether the stream is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Closes the connection without a reset, so that the peer receives the last response.
    ///
    /// Shuts down the write side and reads until the peer closes. A close with unread bytes would
    /// make the system send a reset, and the peer could lose what it has not read yet.
    pub(crate) async fn close(mut self) {
        // On the heap: a buffer inside the future would cost every connection its size.
        let mut rest = vec![0; 4096];
        let shutdown = async {
            self.shutdown().await?;
            let mut discarded = 0;
            while discarded < MAX_DISCARDED {
                match self.read(&mut rest).await? {
                    0 => break,
                    length => discarded += length,
                }
            }
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LINGER, shutdown).await;
    }
}

/// Delegates a poll method to the stream inside.
macro_rules! delegate {
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
        delegate!(self, stream => stream.poll_read(context, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write(context, from))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, stream => stream.poll_write_vectored(context, from))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(tcp) => tcp.is_write_vectored(),
            Stream::Unix(unix) => unix.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self, stream => stream.poll_shutdown(context))
    }
}
