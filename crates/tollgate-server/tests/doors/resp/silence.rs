//! Clients that do not talk, do not finish, or do not listen.

use std::io::Write;
use std::time::Duration;

use super::RULES;
use super::wire::{Client, Reply, command};
use crate::support::start_with;

const SOON: Duration = Duration::from_millis(200);

#[test]
fn the_silent_are_let_go() {
    let server = start_with(RULES, |config| config.bounds.idle_timeout = SOON);
    let mut client = Client::connect(server.resp());
    assert_eq!(client.say("PING"), Reply::Simple("PONG".into()));
    assert!(client.read_to_end().is_empty());
}

#[test]
fn half_a_command_is_not_waited_for_for_ever() {
    let server = start_with(RULES, |config| config.bounds.header_timeout = SOON);
    for half in ["*", "*2\r\n$4\r\nEC", "PIN", "*1\r\n$4\r\nPING\r\n*2\r\n"] {
        let mut client = Client::connect(server.resp());
        client.send(half);
        let answer = client.read_to_end();
        assert!(answer.is_empty() || answer == b"+PONG\r\n", "{half:?}");
    }
    // Who says nothing at all may go on doing so.
    let mut client = Client::connect(server.resp());
    assert_eq!(client.say("PING"), Reply::Simple("PONG".into()));
    std::thread::park_timeout(2 * SOON);
    assert_eq!(client.say("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn who_does_not_read_is_cut_off() {
    let server = start_with(RULES, |config| config.bounds.write_timeout = SOON);
    let mut client = Client::connect(server.resp());
    let commands = command(&["COMMAND"]).repeat(1_000);
    // The server takes no more than it can answer: this must fail, and not for lack of time.
    let mut sent = 0;
    let error = loop {
        match client.stream.write_all(&commands) {
            Ok(()) => sent += commands.len(),
            Err(error) => break error,
        }
        assert!(sent < 256 << 20, "it takes everything");
    };
    let cut = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
    assert!(cut.contains(&error.kind()), "{error}");
    let mut other = Client::connect(server.resp());
    assert_eq!(other.say("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn the_silent_make_room_for_others() {
    let server = start_with(RULES, |config| config.bounds.connections = Some(8));
    let mut first = Client::connect(server.resp());
    assert_eq!(first.say("PING"), Reply::Simple("PONG".into()));
    std::thread::park_timeout(Duration::from_millis(20));
    let mut others: Vec<_> = (0..8).map(|_| Client::connect(server.resp())).collect();
    for other in &mut others {
        assert_eq!(other.say("PING"), Reply::Simple("PONG".into()));
    }
    assert!(first.read_to_end().is_empty());
}
