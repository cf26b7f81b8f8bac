//! Attacks by HTTP/1.1: hidden requests, oversized heads, bodies and heads that never end.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::super::harness::HttpMessage;
use super::hostile_input::{AttackResult, HostileAttack};

/// The target of hidden requests.
pub(super) const SMUGGLED: &str = "/smuggled";

/// The attacks on doors that speak HTTP/1.1.
pub(super) const ATTACKS: &[HostileAttack] = &[
    HostileAttack { name: "hidden requests", run: smuggle },
    HostileAttack { name: "oversized heads", run: large_heads },
    HostileAttack { name: "nonsense", run: nonsense },
    HostileAttack { name: "heads that never end", run: half_heads },
    HostileAttack { name: "bodies that never end", run: half_bodies },
    HostileAttack { name: "nested JSON", run: nested_json },
];

/// Heads that two servers could read differently: the first takes what follows for the body.
const AMBIGUOUS_HEADS: &[&str] = &[
    "Content-Length: 2\r\nContent-Length: 3",
    "Content-Length: 2\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding:\x0bchunked",
    "Content-Length: +2",
    "Content-Length: 2, 3",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999999",
    "X: y\r\n Content-Length: 5",
    "X\r\nY: z",
    "Bad Name: x",
    "X: a\0b",
];

/// The maximum wait for what a server sends back.
const PATIENCE: Duration = Duration::from_secs(5);

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// Sends bytes and reads what comes back until the server closes the connection.
fn exchange(address: SocketAddr, bytes: &[u8]) {
    let Some(mut stream) = connect(address) else { return };
    // A server that rejects a request may close before it has read it.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = (&stream).take(1 << 20).read_to_end(&mut Vec::new());
}

/// Hides a request behind an ambiguous head, and counts the responses after the first.
fn smuggle(address: SocketAddr) -> AttackResult {
    let mut result = AttackResult::default();
    for head in AMBIGUOUS_HEADS {
        let Some(mut stream) = connect(address) else { continue };
        let hidden = format!("GET {SMUGGLED} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let bytes =
            format!("POST /v1/check HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n{{}}{hidden}");
        let _ = stream.write_all(bytes.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut reader = BufReader::new(stream);
        let _first = HttpMessage::read(&mut reader);
        result.smuggled += u64::from(matches!(HttpMessage::read(&mut reader), Ok(Some(_))));
    }
    result
}

fn large_heads(address: SocketAddr) -> AttackResult {
    let head = |rest: String| format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{rest}\r\n\r\n");
    exchange(address, head(format!("X: {}", "y".repeat(300_000))).as_bytes());
    exchange(address, head("A: b\r\n".repeat(2_000)).as_bytes());
    exchange(address, format!("GET /{} HTTP/1.1\r\n\r\n", "u".repeat(300_000)).as_bytes());
    AttackResult::default()
}

fn nonsense(address: SocketAddr) -> AttackResult {
    let random: Vec<u8> = (0..10_000).map(|_| fastrand::u8(..)).collect();
    let cases: [&[u8]; 7] = [
        b"\r\n\r\n\0\0\0",
        b"GET\r\n\r\n",
        b"*3\r\n$4\r\nPING\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense instead of frames",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        &random,
    ];
    cases.iter().for_each(|bytes| exchange(address, bytes));
    AttackResult::default()
}

/// Sends the same bytes on many connections, and keeps them open.
fn hold(address: SocketAddr, connections: usize, bytes: &[u8]) -> AttackResult {
    let mut result = AttackResult::default();
    for _ in 0..connections {
        let Some(mut stream) = connect(address) else { continue };
        let _ = stream.write_all(bytes);
        result.held.push(stream);
    }
    result
}

fn half_heads(address: SocketAddr) -> AttackResult {
    hold(address, 150, b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nX-Half: ")
}

fn half_bodies(address: SocketAddr) -> AttackResult {
    let mut bytes = b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\n\
        Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
        .to_vec();
    bytes.resize(bytes.len() + 500_000, b' ');
    hold(address, 60, &bytes)
}

fn nested_json(address: SocketAddr) -> AttackResult {
    for body in ["[".repeat(500_000), "{\"a\":".repeat(150_000), "9".repeat(900_000)] {
        let head = format!(
            "POST /v1/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        exchange(address, (head + &body).as_bytes());
    }
    AttackResult::default()
}
