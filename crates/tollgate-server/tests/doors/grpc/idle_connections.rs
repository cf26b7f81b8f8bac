//! Idle connections stay open until the idle timeout, also those of clients that are busy elsewhere.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use prost::Message;
use tollgate::Clock;

use super::client::{descriptors_request, framed};
use super::hostile::{END_HEADERS, HEADERS, frame, head};
use super::start_configured;
use crate::support::DEADLINE;

const DATA: u8 = 0;
const END_STREAM: u8 = 1;
const CONNECTIONS: usize = 200;
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes one call on a new connection, which answers no ping afterwards.
fn call(server: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let message = framed(&descriptors_request(&[("heavy", "a")]).encode_to_vec());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &head()));
    bytes.extend(frame(DATA, END_STREAM, 1, &message));
    stream.write_all(&bytes).unwrap();
    let mut received: Vec<u8> = Vec::new();
    // The trailers of the response end the stream.
    while !received.windows(5).any(|bytes| bytes == [HEADERS, END_HEADERS | END_STREAM, 0, 0, 0]) {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "no response");
        received.extend(&part[..length]);
    }
    stream
}

#[test]
fn a_client_that_answers_no_ping_stays_connected_until_the_idle_timeout() {
    let server = start_configured(|config| config.bounds.idle_timeout = IDLE_TIMEOUT);
    let clock = Clock::system();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let began = clock.now();
        connections.push((began, call(server.grpc())));
    }
    let mut early = 0;
    for (began, mut connection) in connections {
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).unwrap();
        let lasted: Duration = clock.now().since(began).into();
        early += usize::from(lasted < IDLE_TIMEOUT);
    }
    assert_eq!(early, 0, "of {CONNECTIONS} connections, closed before the idle timeout");
    server.stop();
}
