//! Opens connections to upstreams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::super::options::GatewayOptions;
use super::super::url::{UpstreamAddress, UpstreamProtocol, UpstreamUrl};
use super::local_resource::ShortageLog;
use crate::net::{Stream, certificates};

/// Opens connections to upstreams.
#[derive(Clone)]
pub(super) struct Connector {
    /// The TLS connector, if an upstream needs it.
    tls: Option<TlsConnector>,
    deadline: Duration,
    shortages: Arc<ShortageLog>,
}

/// The HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionProtocol {
    Http1,
    Http2,
}

impl Connector {
    /// Creates a connector; reads the CA certificates if an upstream needs them.
    pub(super) fn new(options: &GatewayOptions) -> Result<Connector, String> {
        let needs_tls = options.upstreams.iter().any(UpstreamUrl::is_tls);
        let tls = needs_tls.then(|| tls(options)).transpose()?;
        Ok(Connector { tls, deadline: options.connect_timeout, shortages: Arc::default() })
    }

    pub(super) async fn connect(
        &self,
        url: &UpstreamUrl,
    ) -> io::Result<(Stream, ConnectionProtocol)> {
        let reached = timeout(self.deadline, self.reach(url)).await;
        let reached = reached.map_err(io::Error::from).flatten();
        self.shortages.record(&reached);
        reached
    }

    async fn reach(&self, url: &UpstreamUrl) -> io::Result<(Stream, ConnectionProtocol)> {
        let (host, port) = match &url.address {
            UpstreamAddress::Unix(path) => {
                return Ok((
                    Stream::Unix(UnixStream::connect(path).await?),
                    ConnectionProtocol::Http1,
                ));
            }
            UpstreamAddress::Tcp { host, port } => (host.as_str(), *port),
        };
        let tcp = TcpStream::connect((host, port)).await?;
        let _ = tcp.set_nodelay(true);
        let stream = Stream::Tcp(tcp);
        match (url.protocol, &self.tls) {
            (UpstreamProtocol::Http2, _) => Ok((stream, ConnectionProtocol::Http2)),
            (UpstreamProtocol::Tls, Some(tls)) => {
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                let stream = tls.connect(name, stream).await?;
                let agreed = stream.get_ref().1.alpn_protocol();
                let protocol = if agreed == Some(b"h2") {
                    ConnectionProtocol::Http2
                } else {
                    ConnectionProtocol::Http1
                };
                Ok((Stream::Tls(Box::new(stream.into())), protocol))
            }
            _ => Ok((stream, ConnectionProtocol::Http1)),
        }
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

fn tls(options: &GatewayOptions) -> Result<TlsConnector, String> {
    use hyper_rustls::ConfigBuilderExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &options.upstream_ca {
        None => builder.with_native_roots().map_err(|error| {
            format!("this machine has no certificates to trust: {error}; give --upstream-ca")
        })?,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path).map_err(|error| error.to_string())? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{}: {error}", path.display()))?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
