//! Reaching an upstream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::super::options::GatewayOptions;
use super::super::url::{Place, Speaks, UpstreamUrl};
use crate::net::{Stream, certificates};

/// What upstreams are reached with.
#[derive(Clone)]
pub(super) struct Connector {
    /// Where one of them speaks it.
    tls: Option<TlsConnector>,
    patience: Duration,
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
}

impl Connector {
    /// Reads who vouches for upstreams, if any of them needs that.
    pub(super) fn new(options: &GatewayOptions) -> Result<Connector, String> {
        let needs_tls = options.upstreams.iter().any(UpstreamUrl::is_tls);
        let tls = needs_tls.then(|| tls(options)).transpose()?;
        Ok(Connector { tls, patience: options.connect_timeout })
    }

    pub(super) async fn connect(&self, url: &UpstreamUrl) -> io::Result<(Stream, Spoken)> {
        timeout(self.patience, self.reach(url)).await.map_err(io::Error::from).flatten()
    }

    async fn reach(&self, url: &UpstreamUrl) -> io::Result<(Stream, Spoken)> {
        let (host, port) = match &url.place {
            Place::Unix(path) => {
                return Ok((Stream::Unix(UnixStream::connect(path).await?), Spoken::Http1));
            }
            Place::Tcp { host, port } => (host.as_str(), *port),
        };
        let tcp = TcpStream::connect((host, port)).await?;
        let _ = tcp.set_nodelay(true);
        let stream = Stream::Tcp(tcp);
        match (url.speaks, &self.tls) {
            (Speaks::Http2, _) => Ok((stream, Spoken::Http2)),
            (Speaks::Tls, Some(tls)) => {
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                let stream = tls.connect(name, stream).await?;
                let agreed = stream.get_ref().1.alpn_protocol();
                let spoken = if agreed == Some(b"h2") { Spoken::Http2 } else { Spoken::Http1 };
                Ok((Stream::Tls(Box::new(stream.into())), spoken))
            }
            _ => Ok((stream, Spoken::Http1)),
        }
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("patience", &self.patience).finish_non_exhaustive()
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
