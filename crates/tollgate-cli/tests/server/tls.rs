//! TLS at the doors, with and without client certificates.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::process::{Server, shell, until};

/// Creates a CA (`ca.pem`) with certificates of a server (`server.pem`) and a client (`client.pem`).
fn certificates(folder: &Path) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "test CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    write("ca.pem", ca.pem());
    for name in ["server", "client"] {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(names).unwrap().signed_by(&key, &ca).unwrap();
        write(&format!("{name}.pem"), signed.pem());
        write(&format!("{name}.key"), key.serialize_pem());
    }
}

#[test]
fn a_door_requires_tls_and_client_certificates() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let files = ["--tls-cert", "server.pem", "--tls-key", "server.key"];
    let more = ["--http-tls-client-ca", "ca.pem", "--resp-tls-cert", "off", "--grpc", "off"];
    let server = Server::start_in(folder, &[&files[..], &more[..]].concat());
    assert!(server.http().starts_with("https://"), "{}", server.start_output);
    let at = |name: &str| server.path(name).display().to_string();
    let curl = |more: &str| {
        let body = r#"{"key":"a","limit":"5/min"}"#;
        let url = format!("{}/v1/limit", server.http());
        format!("curl -s --cacert {} {more} {url} -d '{body}'", at("ca.pem"))
    };
    let client_certificate = format!("--cert {} --key {}", at("client.pem"), at("client.key"));
    let answer = shell(&curl(&client_certificate));
    assert!(answer.contains(r#""allowed":true"#), "{answer}");
    let anonymous = shell(&format!("{} || echo refused", curl("")));
    assert_eq!(anonymous.trim(), "refused");
    let resp = server.at("resp").rsplit(':').next().unwrap().to_owned();
    assert_eq!(shell(&format!("redis-cli -p {resp} PING")).trim(), "PONG");

    // A hang-up reloads renewed certificates: those of the old CA are no longer trusted.
    certificates(server.folder.path());
    server.signal("-HUP");
    server.wait_for_log("reloaded the certificate");
    until("the new certificate", || {
        shell(&format!("{} || true", curl(&client_certificate))).contains("allowed")
    });
}
