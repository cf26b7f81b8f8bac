//! What all doors have in common: how they are opened, and how they close.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::start;

#[test]
fn a_server_that_runs_is_alive_and_ready() {
    let server = start("rules: [{ name: all, limit: 1/s }]");
    for path in ["/livez", "/readyz"] {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    server.stop();
}
