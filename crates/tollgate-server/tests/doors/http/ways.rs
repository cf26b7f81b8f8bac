//! The ways to this door: a port, a socket in the file system, TLS with and without a certificate
//! of the client's.

use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tollgate_server::net::{Address, Bind, TlsOptions};

use crate::support::{Running, start, start_with};

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";

/// Whether curl is answered that it may go on; what it says otherwise.
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
fn curl_is_answered() {
    let server = start(RULES);
    let said = curl(&[], &format!("http://{}/v1/check", server.http())).unwrap();
    assert!(said.starts_with("{\"allowed\":true") && said.ends_with(" 1.1"), "{said}");
}

#[test]
fn a_socket_in_the_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("http.sock");
    let given = path.clone();
    let server = start_with(RULES, move |config| {
        config.http = Some(Bind::plain(Address::Unix(given)));
    });
    for more in [&[][..], &["--http2-prior-knowledge"]] {
        let options = [&["--unix-socket", path.to_str().unwrap()], more].concat();
        let said = curl(&options, "http://tollgate/v1/check").unwrap();
        assert!(said.starts_with("{\"allowed\":true"), "{said}");
    }
    server.stop();
    assert!(!path.exists(), "nothing is left behind");
}

/// Certificates of an authority, of the server and of a client.
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

    fn server(&self, client_ca: Option<&Path>) -> Running {
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

    fn curl(&self, server: &Running, more: &[&str]) -> Result<String, String> {
        let url = format!("https://localhost:{}/v1/check", server.http().port());
        let authority = self.path("ca.pem");
        let options = [&["--cacert", authority.to_str().unwrap(), "-4"], more].concat();
        curl(&options, &url)
    }
}

#[test]
fn tls_with_either_protocol() {
    let certificates = Certificates::make();
    let server = certificates.server(None);
    for (option, version) in [("--http1.1", " 1.1"), ("--http2", " 2")] {
        let said = certificates.curl(&server, &[option]).unwrap();
        assert!(said.starts_with("{\"allowed\":true") && said.ends_with(version), "{said}");
    }
    let plain = curl(&[], &format!("http://{}/v1/check", server.http()));
    assert!(plain.is_err(), "TLS only");
}

#[test]
fn tls_with_a_certificate_of_the_client() {
    let certificates = Certificates::make();
    let server = certificates.server(Some(&certificates.path("ca.pem")));
    let (certificate, key) = (certificates.path("client.pem"), certificates.path("client.key"));
    let with = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert!(certificates.curl(&server, &with).unwrap().starts_with("{\"allowed\":true"));
    assert!(certificates.curl(&server, &[]).is_err(), "without one nobody comes in");
    let stranger = Certificates::make();
    let (certificate, key) = (stranger.path("client.pem"), stranger.path("client.key"));
    let with = ["--cert", certificate.to_str().unwrap(), "--key", key.to_str().unwrap()];
    assert!(certificates.curl(&server, &with).is_err(), "nor with a stranger's");
}
