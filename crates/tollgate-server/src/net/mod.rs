//! Connections: where the server listens, who may stay, and how it lets go of them.
//!
//! Every door is served the same way. `serve` accepts, finds a place for the newcomer (when all
//! are taken, who has been silent longest leaves), shakes hands where there is TLS, and hands the
//! connection to the `Door`. Nothing a connection does before it has said something sensible
//! costs more than its place.

mod address;
mod connections;
mod drain;
pub(crate) mod http;
mod listener;
mod stream;
mod tls;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use address::{Address, AddressError};
pub(crate) use connections::{Connections, Seat};
pub(crate) use drain::{Drain, Drainer};
pub(crate) use listener::Listener;
pub use listener::{Bind, BindError};
pub(crate) use stream::Stream;
pub(crate) use tls::{Tls, certificates};
pub use tls::{TlsError, TlsOptions};

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After the system refused a connection, most often because too many files are open.
const BREATHER: Duration = Duration::from_millis(20);

/// One way in: speaks a protocol on a connection until it ends.
pub(crate) trait Door: Clone + Send + Sync + 'static {
    /// Serves a connection to its end. Ends it in good order once the server drains, and at once
    /// when its [`Seat`] is needed by somebody else.
    fn serve(&self, connection: Connection) -> impl Future<Output = ()> + Send;
}

/// A connection, ready to be spoken on.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// Who is at the other end; nobody in particular on a unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) seat: Seat,
    pub(crate) drain: Drain,
}

/// Serves a door until the server drains.
pub(crate) async fn serve(
    listener: Listener,
    connections: Arc<Connections>,
    drain: Drain,
    door: impl Door,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.closing() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                connections.make_room();
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        // No place even after somebody was asked to leave: the newcomer goes.
        let Some(seat) = connections.admit() else { continue };
        let (tls, door, drain) = (listener.tls().cloned(), door.clone(), drain.clone());
        tokio::spawn(async move {
            let stream = match tls {
                None => stream,
                Some(tls) => {
                    let shaken = tokio::time::timeout(HANDSHAKE, tls.accept(stream));
                    tokio::select! {
                        shaken = shaken => match shaken {
                            Ok(Ok(stream)) => stream,
                            Ok(Err(error)) => {
                                tracing::debug!(%error, "a TLS handshake failed");
                                return;
                            }
                            Err(_) => return,
                        },
                        () = seat.wanted() => return,
                    }
                }
            };
            door.serve(Connection { stream, peer, seat, drain }).await;
        });
    }
}
