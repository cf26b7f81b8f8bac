//! Tests of all doors: opening and closing.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::support::start;

#[test]
fn a_running_server_is_alive_and_ready() {
    let server = start("rules: [{ name: all, limit: 1/s }]");
    for path in ["/livez", "/readyz"] {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    server.stop();
}
