//! The same over a unix socket and TLS, asked by grpcio.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tollgate_server::net::{Address, Bind, TlsOptions};

use super::start_also;
use crate::support::python;

const SCRIPT: &str = "grpc/client.py";

#[test]
fn over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.sock");
    let address = Address::Unix(path.clone());
    let server = start_also(|config| config.grpc = Some(Bind::plain(address)));
    let said = python(SCRIPT, &["ask", &format!("unix:{}", path.display())]);
    assert_eq!(said.trim(), "OK 2");
    server.stop();
    assert!(!path.exists(), "the socket goes with the server");
}

/// A certificate authority, and a certificate it vouches for, as files.
struct Certificates {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn certificates(folder: &Path) -> Certificates {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Of one name with what it vouches for, it would be taken for that.
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
    Certificates {
        authority: write("authority.pem", authority.pem()),
        certificate: write("certificate.pem", certificate.pem()),
        key: write("key.pem", key.serialize_pem()),
    }
}

#[test]
fn over_tls_with_and_without_a_certificate_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    for client_ca in [None, Some(files.authority.clone())] {
        let is_needed = client_ca.is_some();
        let server = start_also(|config| {
            let bind = config.grpc.as_mut().unwrap();
            let (certificate, key) = (files.certificate.clone(), files.key.clone());
            bind.tls = Some(TlsOptions { certificate, key, client_ca });
        });
        let address = format!("localhost:{}", server.grpc().port());
        let authority = text(&files.authority);
        let bare = python(SCRIPT, &["ask", &address, &authority]);
        let shown = python(
            SCRIPT,
            &["ask", &address, &authority, &text(&files.certificate), &text(&files.key)],
        );
        let wanted = match is_needed {
            true => ("UNAVAILABLE", "OK 2"),
            false => ("OK 2", "OK 1"),
        };
        assert_eq!((bare.trim(), shown.trim()), wanted);
        server.stop();
    }
}
