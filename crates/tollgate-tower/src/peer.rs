//! The address of the client's connection, which servers put into the extensions of a request.

use std::net::IpAddr;

use http::Extensions;

/// The address of the client's connection. Insert it into the request's extensions if the server
/// does not do so itself.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate_tower::Peer;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Peer(IpAddr::from([203, 0, 113, 7])));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// Returns the address among the extensions of a request.
pub(crate) fn of(extensions: &Extensions) -> Option<IpAddr> {
    if let Some(Peer(address)) = extensions.get() {
        return Some(*address);
    }
    #[cfg(feature = "axum")]
    if let Some(axum::extract::ConnectInfo(address)) =
        extensions.get::<axum::extract::ConnectInfo<std::net::SocketAddr>>()
    {
        return Some(address.ip());
    }
    #[cfg(feature = "tonic")]
    if let Some(connection) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return connection.remote_addr().map(|address| address.ip());
    }
    None
}
