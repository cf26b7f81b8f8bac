//! Listeners and connections: accepting, the cap on connections, TLS and draining.
//!
//! Every door is served in the same way. `serve` accepts a connection, takes a slot for it (at the
//! cap the connection that has been idle longest is evicted, and none with a request in progress),
//! performs the TLS handshake where it is configured, and hands the connection to the `Door`. Until a client has sent a valid request, it
//! costs no more than its slot.

mod address;
mod body_budget;
mod body_buffer;
mod client_network;
mod connection_slot;
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

use crate::background::{self, BackgroundWorker, PanicGuard};

pub use address::{Address, AddressError};
pub(crate) use body_budget::{BodyBudget, BodyMemory, BodyReservation};
pub(crate) use body_buffer::{BodyBuffer, BodyBufferError, BufferedBody};
pub(crate) use client_network::client_network;
pub(crate) use connection_slot::ConnectionSlot;
pub(crate) use connections::{Connections, DoorConnections, SLACK};
pub(crate) use drain::{Drain, Drainer};
pub(crate) use listener::Listener;
pub use listener::{Bind, BindError};
pub(crate) use stream::Stream;
pub(crate) use tls::{Tls, certificates};
pub use tls::{TlsError, TlsOptions};

/// The maximum time of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept, most often caused by too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A way into the server: serves one protocol on its connections.
pub(crate) trait Door: Clone + Send + Sync + 'static {
    /// Serves a connection until it closes.
    ///
    /// A door closes it gracefully once the server drains, and at once when its [`ConnectionSlot`]
    /// is evicted.
    fn serve(&self, connection: Connection) -> impl Future<Output = ()> + Send;
}

/// An accepted connection after its TLS handshake.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// The address of the client; `None` on a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) slot: ConnectionSlot,
    pub(crate) drain: Drain,
}

/// Serves a door until the server drains.
pub(crate) async fn serve(
    listener: Arc<Listener>,
    connections: DoorConnections,
    drain: Drain,
    door: impl Door,
) {
    loop {
        background::panic_point(BackgroundWorker::Accept);
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.closing() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                connections.evict_one();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // All connections are busy or still closing, so the new connection is dropped.
        let Some(slot) = connections.admit().await else { continue };
        let (tls, door, drain) = (listener.tls().cloned(), door.clone(), drain.clone());
        tokio::spawn(async move {
            let _panics = PanicGuard::new(BackgroundWorker::Connection);
            background::panic_point(BackgroundWorker::Connection);
            let stream = match tls {
                None => stream,
                Some(tls) => {
                    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
                    tokio::select! {
                        result = handshake => match result {
                            Ok(Ok(stream)) => stream,
                            Ok(Err(error)) => {
                                tracing::debug!(%error, "TLS handshake failed");
                                return;
                            }
                            Err(_) => return,
                        },
                        () = slot.evicted() => return,
                    }
                }
            };
            door.serve(Connection { stream, peer, slot, drain }).await;
        });
    }
}
