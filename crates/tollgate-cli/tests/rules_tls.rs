//! A rules service behind TLS: called only if the system trusts it.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::tollgate_in;

const TOKEN: &str = "0123456789abcdef";

/// Serves an empty list of files, and counts the requests with the token.
fn serve(key: rcgen::CertifiedKey<rcgen::KeyPair>) -> (SocketAddr, Arc<AtomicUsize>) {
    let certificate = key.cert.der().clone();
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], private.into())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, tokens) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let seen = tokens.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = BufReader::new(StreamOwned::new(connection, stream.unwrap()));
            let mut line = String::new();
            // This ends with the empty line after the headers, or because the client does not trust us.
            while matches!(stream.read_line(&mut line), Ok(1..)) && line != "\r\n" {
                seen.fetch_add(usize::from(line.contains(TOKEN)), Ordering::SeqCst);
                line.clear();
            }
            let body = r#"{"files":[],"revision":0}"#;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", body.len());
            let answer = format!("{head}connection: close\r\n\r\n{body}");
            let _ = stream.get_mut().write_all(answer.as_bytes());
        }
    });
    (address, tokens)
}

#[test]
fn a_service_is_called_over_tls_if_the_system_trusts_it() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let untrusted = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = support::folder(&[
        ("trusted.pem", &key.cert.pem()),
        ("untrusted.pem", &untrusted.cert.pem()),
    ]);
    let (address, tokens) = serve(key);
    let list_rules = |host: &str, roots: &str| {
        let url = format!("https://{host}:{}", address.port());
        let roots = support::path(&folder, roots);
        let env =
            [("TOLLGATE_SERVER", &*url), ("TOLLGATE_TOKEN", TOKEN), ("SSL_CERT_FILE", &roots)];
        tollgate_in(&env, &["rules", "list", "--json"], "")
    };
    for (host, roots) in [("localhost", "untrusted.pem"), ("127.0.0.1", "trusted.pem")] {
        let refused = list_rules(host, roots);
        assert_eq!(refused.code, 2, "{host} {roots}: {}", refused.stdout);
        assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);
    }
    assert_eq!(tokens.load(Ordering::SeqCst), 0, "an untrusted server receives no token");
    let fine = list_rules("localhost", "trusted.pem");
    assert_eq!((fine.code, &*fine.stderr), (0, ""));
    assert_eq!(fine.stdout.trim(), r#"{"files":[],"revision":0}"#);
    assert_eq!(tokens.load(Ordering::SeqCst), 1);
}
