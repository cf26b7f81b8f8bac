//! The gRPC door over a Unix socket and TLS, with grpcio.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tollgate_server::net::{Address, Bind, TlsOptions};

use super::start_configured;
use crate::support::python;

const SCRIPT: &str = "grpc/client.py";

#[test]
fn grpcio_connects_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.sock");
    let address = Address::Unix(path.clone());
    let server = start_configured(|config| config.grpc = Some(Bind::plain(address)));
    let output = python(SCRIPT, &["decide", &format!("unix:{}", path.display())]);
    assert_eq!(output.trim(), "OK 2");
    server.stop();
    assert!(!path.exists(), "the server removes its socket");
}

/// The files of a certificate authority and of a certificate that it signed.
struct CertificateFiles {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn certificates(folder: &Path) -> CertificateFiles {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Without a name of its own, the authority would be taken for the certificate it signs.
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    CertificateFiles {
        authority: write("authority.pem", authority.pem()),
        certificate: write("certificate.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
    }
}

#[test]
fn grpcio_connects_over_tls_with_and_without_a_client_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for client_ca in [None, Some(files.authority.clone())] {
        let is_needed = client_ca.is_some();
        let server = start_configured(|config| {
            let bind = config.grpc.as_mut().unwrap();
            let (certificate, key) = (files.certificate.clone(), files.key.clone());
            bind.tls = Some(TlsOptions { certificate, key, client_ca });
        });
        let address = format!("localhost:{}", server.grpc().port());
        let authority = text(&files.authority);
        let bare = python(SCRIPT, &["decide", &address, &authority]);
        let shown = python(
            SCRIPT,
            &["decide", &address, &authority, &text(&files.certificate), &text(&files.key)],
        );
        let wanted = match is_needed {
            true => ("UNAVAILABLE", "OK 2"),
            false => ("OK 2", "OK 1"),
        };
        assert_eq!((bare.trim(), shown.trim()), wanted);
        server.stop();
    }
}
