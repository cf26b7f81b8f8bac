//! Listeners: a TCP port, a Unix socket, TLS with and without client certificates.

use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tollgate_server::net::{Address, Bind, TlsOptions};

use crate::support::{TestServer, start, start_with};

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";

/// Returns whether curl gets an allowed decision, or its error.
fn curl(options: &[&str], url: &str) -> Result<String, String> {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "-w", " %{http_version}", "-d", "{}"]);
    let output = command.args(options).arg(url).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

#[test]
fn curl_connects_over_tcp() {
    let server = start(RULES);
    let output = curl(&[], &format!("http://{}/v1/check", server.http())).unwrap();
    assert!(output.starts_with("{\"allowed\":true") && output.ends_with(" 1.1"), "{output}");
}

#[test]
fn curl_connects_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let given = path.clone();
    let server = start_with(RULES, move |config| {
        config.http = Some(Bind::plain(Address::Unix(given)));
    });
    for more in [&[][..], &["--http2-prior-knowledge"]] {
        let options = [&["--unix-socket", path.to_str().unwrap()], more].concat();
        let output = curl(&options, "http://tollgate/v1/check").unwrap();
        assert!(output.starts_with("{\"allowed\":true"), "{output}");
    }
    server.stop();
    assert!(!path.exists(), "the server removes its socket");
}

/// The certificates of an authority, a server and a client.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn make() -> Certificates {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "the authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            std::fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Certificates { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn server(&self, client_ca: Option<&Path>) -> TestServer {
        let tls = TlsOptions {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_ca: client_ca.map(Path::to_owned),
        };
        start_with(RULES, move |config| {
            let address = "127.0.0.1:0".parse().unwrap();
            config.http = Some(Bind { address, tls: Some(tls) });
        })
    }

    fn curl(&self, server: &TestServer, more: &[&str]) -> Result<String, String> {
        let url = format!("https://localhost:{}/v1/check", server.http().port());
        let authority = self.path("ca.pem");
        let options = [&["--cacert", authority.to_str().unwrap(), "-4"], more].concat();
        curl(&options, &url)
    }
}

#[test]
fn curl_connects_over_tls_with_http1_and_http2() {
    let certificates = Certificates::make();
    let server = certificates.server(None);
    for (option, version) in [("--http1.1", " 1.1"), ("--http2", " 2")] {
        let output = certificates.curl(&server, &[option]).unwrap();
        assert!(output.starts_with("{\"allowed\":true") && output.ends_with(version), "{output}");
    }
    let plain = curl(&[], &format!("http://{}/v1/check", server.http()));
    assert!(plain.is_err(), "TLS only");
}

#[test]
fn tls_can_require_a_client_certificate() {
    let certificates = Certificates::make();
    let server = certificates.server(Some(&certificates.path("ca.pem")));
    let (certificate, key) = (certificates.path("client.pem"), certificates.path("client.key"));
    let with = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert!(certificates.curl(&server, &with).unwrap().starts_with("{\"allowed\":true"));
    assert!(certificates.curl(&server, &[]).is_err(), "a client certificate is required");
    let other = Certificates::make();
    let (certificate, key) = (other.path("client.pem"), other.path("client.key"));
    let with = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert!(certificates.curl(&server, &with).is_err(), "another authority is not trusted");
}
