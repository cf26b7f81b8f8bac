//! Listening: on a port or on a socket in the file system, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};

use super::{Address, Stream, Tls, TlsError, TlsOptions};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Where a door listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The address.
    pub address: Address,
    /// TLS, if it is spoken there.
    pub tls: Option<TlsOptions>,
}

impl Bind {
    /// An address without TLS.
    pub fn plain(address: Address) -> Bind {
        Bind { address, tls: None }
    }
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The system does not let us.
    #[error("cannot listen on {address}: {error}{hint}", hint = hint(error))]
    Listen {
        /// Where.
        address: Address,
        /// Why.
        error: io::Error,
    },
    /// The certificate or the key is wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (is another tollgate running? choose another address)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need privileges)",
        _ => "",
    }
}

/// A door's ear.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    tls: Option<Arc<Tls>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a socket, removed when nobody listens any more.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens. `protocols` are what TLS offers to clients that ask.
    pub(crate) fn bind(bind: &Bind, protocols: &[&str]) -> Result<Listener, BindError> {
        let tls = bind.tls.as_ref().map(|options| Tls::load(options, protocols)).transpose()?;
        let socket = match &bind.address {
            Address::Tcp(address) => listen(*address).map(Socket::Tcp),
            Address::Unix(path) => listen_at(path),
        };
        let failed = |error| BindError::Listen { address: bind.address.clone(), error };
        Ok(Listener { socket: socket.map_err(failed)?, tls })
    }

    /// A port that somebody else listens on already.
    pub(crate) fn plain(listener: TcpListener) -> Listener {
        Listener { socket: Socket::Tcp(listener), tls: None }
    }

    /// Where it listens in fact.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            Socket::Unix(_, file) => Ok(Address::Unix(file.0.clone())),
        }
    }

    pub(crate) fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small and wanted at once.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            Socket::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), None))
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn listen_at(path: &Path) -> io::Result<Socket> {
    // What a process that was killed left behind would be in the way; a living one is not.
    if std::os::unix::net::UnixStream::connect(path).is_err()
        && path.symlink_metadata().is_ok_and(|file| is_socket(&file))
    {
        std::fs::remove_file(path)?;
    }
    Ok(Socket::Unix(UnixListener::bind(path)?, SocketFile(path.to_owned())))
}

fn is_socket(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_socket()
}
