//! Listeners: on a TCP port or a Unix socket, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};

use super::{Address, Stream, Tls, TlsError, TlsOptions};

/// The number of connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// The address that a door listens on, and its TLS options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The address.
    pub address: Address,
    /// The TLS options; `None` for plain connections.
    pub tls: Option<TlsOptions>,
}

impl Bind {
    /// Creates options for plain connections.
    pub fn plain(address: Address) -> Bind {
        Bind { address, tls: None }
    }
}

/// The error of opening a door.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The operating system refused to listen.
    #[error("cannot listen on {address}: {}", advice(error, setting))]
    Listen {
        /// The setting that has the address, such as `http`.
        setting: &'static str,
        /// The address of the door.
        address: Address,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The certificate or the key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Returns what went wrong, and what to do about it.
fn advice(error: &io::Error, setting: &str) -> String {
    let other = format!("choose another address with --{setting}");
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("it is in use, perhaps by another tollgate; stop that, or {other}")
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "{error}; ports below 1024 need privileges, and sockets a folder that can be \
                     written; {other}"
            )
        }
        _ => format!("{error}; {other}"),
    }
}

/// An open listening socket of a door.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: ListenerSocket,
    tls: Option<Arc<Tls>>,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// The file of a Unix socket, removed when the listener is dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Opens a listening socket at the address of a setting; TLS offers `protocols` in ALPN.
    pub(crate) fn bind(
        setting: &'static str,
        bind: &Bind,
        protocols: &[&str],
    ) -> Result<Listener, BindError> {
        let tls = bind.tls.as_ref().map(|options| Tls::load(options, protocols)).transpose()?;
        let socket = match &bind.address {
            Address::Tcp(address) => listen(*address).map(ListenerSocket::Tcp),
            Address::Unix(path) => listen_at(path),
        };
        let failed = |error| BindError::Listen { setting, address: bind.address.clone(), error };
        Ok(Listener { socket: socket.map_err(failed)?, tls })
    }

    /// Wraps a socket that is already listening.
    pub(crate) fn plain(listener: TcpListener) -> Listener {
        Listener { socket: ListenerSocket::Tcp(listener), tls: None }
    }

    /// Returns the address in use, with the port that the system chose.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match &self.socket {
            ListenerSocket::Tcp(listener) => listener.local_addr().map(Address::Tcp),
            ListenerSocket::Unix(_, file) => Ok(Address::Unix(file.0.clone())),
        }
    }

    /// Returns the TLS state, unless connections are plain.
    pub(crate) fn tls(&self) -> Option<&Arc<Tls>> {
        self.tls.as_ref()
    }

    /// Accepts the next connection; a Unix socket has no peer address.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        match &self.socket {
            ListenerSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Responses are small and must leave at once.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer)))
            }
            ListenerSocket::Unix(listener, _) => {
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

fn listen_at(path: &Path) -> io::Result<ListenerSocket> {
    // The socket file of a process that was killed must be removed before binding. A process that
    // still accepts keeps its file, and binding fails.
    if std::os::unix::net::UnixStream::connect(path).is_err()
        && path.symlink_metadata().is_ok_and(|file| is_socket(&file))
    {
        std::fs::remove_file(path)?;
    }
    Ok(ListenerSocket::Unix(UnixListener::bind(path)?, SocketFile(path.to_owned())))
}

fn is_socket(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_socket()
}
