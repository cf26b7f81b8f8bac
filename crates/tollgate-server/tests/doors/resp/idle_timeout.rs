//! Idle clients, slow clients and clients that do not read.

use std::io::Write;
use std::time::Duration;

use super::RULES;
use super::client::{RespClient, RespReply, command};
use crate::support::start_with;

const SOON: Duration = Duration::from_millis(200);

#[test]
fn idle_clients_are_disconnected() {
    let server = start_with(RULES, |config| config.bounds.idle_timeout = SOON);
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
    assert!(client.read_to_end().is_empty());
}

#[test]
fn an_incomplete_command_times_out() {
    let server = start_with(RULES, |config| config.bounds.header_timeout = SOON);
    for half in ["*", "*2\r\n$4\r\nEC", "PIN", "*1\r\n$4\r\nPING\r\n*2\r\n"] {
        let mut client = RespClient::connect(server.resp());
        client.send(half);
        let reply = client.read_to_end();
        assert!(reply.is_empty() || reply == b"+PONG\r\n", "{half:?}");
    }
    // A connection without an incomplete command may stay idle.
    let mut client = RespClient::connect(server.resp());
    assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
    std::thread::park_timeout(2 * SOON);
    assert_eq!(client.call_text("PING"), RespReply::Simple("PONG".into()));
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let server = start_with(RULES, |config| config.bounds.write_timeout = SOON);
    let mut client = RespClient::connect(server.resp());
    let commands = command(&["COMMAND"]).repeat(1_000);
    // The server stops reading when replies are not read, so writing must fail.
    let mut sent = 0;
    let error = loop {
        match client.stream.write_all(&commands) {
            Ok(()) => sent += commands.len(),
            Err(error) => break error,
        }
        assert!(sent < 256 << 20, "the server reads without a bound");
    };
    let cut = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
    assert!(cut.contains(&error.kind()), "{error}");
    let mut other = RespClient::connect(server.resp());
    assert_eq!(other.call_text("PING"), RespReply::Simple("PONG".into()));
}

#[test]
fn at_the_cap_an_idle_connection_is_closed() {
    let server = start_with(RULES, |config| config.bounds.connections = Some(8));
    let mut first = RespClient::connect(server.resp());
    assert_eq!(first.call_text("PING"), RespReply::Simple("PONG".into()));
    std::thread::park_timeout(Duration::from_millis(20));
    let mut others: Vec<_> = (0..8).map(|_| RespClient::connect(server.resp())).collect();
    for other in &mut others {
        assert_eq!(other.call_text("PING"), RespReply::Simple("PONG".into()));
    }
    assert!(first.read_to_end().is_empty());
}
