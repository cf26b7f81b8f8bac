//! TLS: the trusted CA certificates, and the client certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::ConnectError;
use crate::options::TlsFiles;

/// Reads the certificate files and returns a connector.
pub(super) fn connector(files: &TlsFiles) -> Result<TlsConnector, ConnectError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConnectError::new(format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots(files.ca.as_deref())?);
    let config = match &files.client {
        None => builder.with_no_client_auth(),
        Some((file, key)) => {
            let chain = certificates(file)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| wrong(key, format_args!("cannot read a private key: {error}")))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                wrong(file, format_args!("the certificate does not match the key: {error}"))
            })?
        }
    };
    Ok(Arc::new(config).into())
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, error))?;
            }
        }
        None => {
            let (added, _) =
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if added == 0 {
                return Err(ConnectError::new(
                    "no system CA certificates were found: install them, or name a file with the \
                     CA certificates of your servers",
                ));
            }
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let all = read.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(path, error))?;
    if all.is_empty() { Err(wrong(path, "the file has no certificate")) } else { Ok(all) }
}

fn wrong(path: &Path, reason: impl std::fmt::Display) -> ConnectError {
    ConnectError::new(format!("{}: {reason}", path.display()))
}
