//! TLS on both sides, with either protocol.

use std::process::Command;

use tollgate_rig::{Certificates, Upstream};
use tollgate_server::net::{Bind, TlsOptions};

use crate::support::{Gateway, OPEN, start_with};

fn with_tls(certificates: &Certificates, to: &str) -> Gateway {
    start_with(OPEN, &[to], |config| {
        let tls = TlsOptions {
            certificate: certificates.server.clone(),
            key: certificates.server_key.clone(),
            client_ca: None,
        };
        let options = config.gateway.as_mut().unwrap();
        options.listen = Bind { address: "127.0.0.1:0".parse().unwrap(), tls: Some(tls) };
        options.upstream_ca = Some(certificates.ca.clone());
    })
}

#[test]
fn tls_to_the_gateway_and_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::write(folder.path());
    let stub = Upstream::start();
    // One gateway is the upstream of the other: both ends of TLS are ours, and curl's.
    let inner = with_tls(&certificates, &stub.url());
    let outer = with_tls(&certificates, &format!("https://localhost:{}", inner.address().port()));
    for (option, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let url = format!("https://localhost:{}/path", outer.address().port());
        let output = Command::new("curl")
            .args(["-sS", "-4", "--max-time", "20", "-w", " %{http_version}", "-d", "hello"])
            .args([option, "--cacert"])
            .arg(&certificates.ca)
            .arg(&url)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, format!("upstream {version}"), "{error}");
        assert_eq!((stub.last().text(), stub.last().target()), ("hello".to_owned(), "/path"));
    }
    assert_eq!((outer.decisions(), inner.decisions(), stub.count()), (2, 2, 2));
}

#[test]
fn an_upstream_with_an_unknown_ca_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (own, strange) = (Certificates::write(folder.path()), Certificates::write(other.path()));
    let stub = Upstream::start();
    let inner = with_tls(&strange, &stub.url());
    let port = inner.address().port();
    let outer = start_with(OPEN, &[&format!("https://localhost:{port}")], |config| {
        config.gateway.as_mut().unwrap().upstream_ca = Some(own.ca.clone());
    });
    let status = outer.connect().get("/").status();
    assert!(matches!(status, 502 | 503), "{status}");
    assert_eq!((inner.decisions(), stub.count()), (0, 0));
}
