//! Attacks on the RESP door: invalid lengths, nesting, announced lengths, replies that are not read.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use super::super::harness::RespConnection;
use super::hostile_input::{AttackResult, HostileAttack};
use crate::bench::resp_command;

/// The attacks on the RESP door.
pub(super) const ATTACKS: &[HostileAttack] = &[
    HostileAttack { name: "invalid bytes", run: invalid_bytes },
    HostileAttack { name: "nested arrays", run: nested_arrays },
    HostileAttack { name: "announced lengths", run: announced_lengths },
    HostileAttack { name: "replies that are not read", run: unread_replies },
    HostileAttack { name: "keys of any bytes", run: odd_keys },
];

fn exchange(address: SocketAddr, bytes: &[u8]) {
    let Ok(mut connection) = RespConnection::open(address) else { return };
    // A server that rejects a command may close before it has read it.
    let _ = connection.write(bytes);
    connection.read_to_end();
}

fn invalid_bytes(address: SocketAddr) -> AttackResult {
    let random: Vec<u8> = (0..10_000).map(|_| fastrand::u8(..)).collect();
    let cases: [&[u8]; 12] = [
        b"*2000000000\r\n",
        b"*99999999999999999999999\r\n",
        b"*-1\r\n",
        b"*1\r\n$2000000000\r\n",
        b"*1\r\n$-5\r\n",
        b"*1\r\n$4\r\nPINGPONG\r\n",
        b"*1\r\n\x1b[31m\r\n",
        b"PING \"\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        &[b'x'; 70_000],
        &random,
    ];
    cases.iter().for_each(|bytes| exchange(address, bytes));
    AttackResult::default()
}

fn nested_arrays(address: SocketAddr) -> AttackResult {
    exchange(address, &b"*1\r\n".repeat(100_000));
    AttackResult::default()
}

/// Announces the largest command on many connections, and sends next to nothing.
fn announced_lengths(address: SocketAddr) -> AttackResult {
    let mut result = AttackResult::default();
    for _ in 0..200 {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = stream.write_all(b"*1024\r\n$60000\r\nx");
        result.held.push(stream);
    }
    result
}

/// Sends commands without end, and reads no reply.
fn unread_replies(address: SocketAddr) -> AttackResult {
    let commands = resp_command(&["TG.LIMIT", "unread", "10/s"]).repeat(1_000);
    let Ok(mut connection) = RespConnection::open(address) else { return AttackResult::default() };
    connection.write_while_taken(&commands, 16 << 20);
    AttackResult { held: vec![connection.into_stream()], smuggled: 0 }
}

fn odd_keys(address: SocketAddr) -> AttackResult {
    let long = "k".repeat(60_000);
    let keys =
        ["a\0", "a\r\n$1\r\n1", "\x1b[2J", "<script>alert(1)</script>", "", "\u{202e}", &long];
    for key in keys {
        exchange(address, &resp_command(&["TG.LIMIT", key, "10/s"]));
        exchange(address, &resp_command(&["TG.LIMIT", "k", key]));
        exchange(address, &resp_command(&[key, key]));
    }
    AttackResult::default()
}
