//! Server-side TLS: certificates from PEM files, which can be reloaded.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::Stream;

/// The PEM files that a door needs for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate chain of the server.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The CA certificates that verify clients. If set, a client certificate is required.
    pub client_ca: Option<PathBuf>,
}

/// The error of reading a certificate or a key.
#[derive(thiserror::Error)]
#[error("{path}: {why}", path = path.display())]
pub struct TlsError {
    path: PathBuf,
    why: String,
}

/// The TLS configuration of a door, replaced when its files are reloaded.
#[derive(Debug)]
pub(crate) struct Tls {
    options: TlsOptions,
    protocols: Vec<Vec<u8>>,
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    /// Reads the files; `protocols` are offered in ALPN.
    pub(crate) fn load(options: &TlsOptions, protocols: &[&str]) -> Result<Arc<Tls>, TlsError> {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|name| name.as_bytes().into()).collect();
        let current = ArcSwap::from_pointee(read(options, &protocols)?);
        Ok(Arc::new(Tls { options: options.clone(), protocols, current }))
    }

    /// Reads the files again; on an error the previous configuration stays in use.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        self.current.store(Arc::new(read(&self.options, &self.protocols)?));
        Ok(())
    }

    /// Performs the TLS handshake.
    pub(crate) async fn accept(&self, stream: Stream) -> io::Result<Stream> {
        let acceptor = TlsAcceptor::from(self.current.load_full());
        Ok(Stream::Tls(Box::new(acceptor.accept(stream).await?.into())))
    }
}

fn read(options: &TlsOptions, protocols: &[Vec<u8>]) -> Result<ServerConfig, TlsError> {
    let wrong = |path: &Path, why: String| TlsError { path: path.to_owned(), why };
    let chain = certificates(&options.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&options.key)
        .map_err(|error| wrong(&options.key, format!("cannot read a private key: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&options.certificate, error.to_string()))?;
    let builder = match &options.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, error.to_string()))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|error| wrong(path, error.to_string()))?,
            )
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        wrong(
            &options.certificate,
            format!("the certificate and the private key do not match: {error}"),
        )
    })?;
    config.alpn_protocols = protocols.to_vec();
    Ok(config)
}

/// Reads all certificates of a PEM file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError { path: path.to_owned(), why };
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() { Err(wrong("the file contains no certificate".into())) } else { Ok(all) }
}
