//! HTTP/2 without TLS, with curl and with hostile clients.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;

use super::client::HttpClient;
use crate::support::{DEADLINE, start, start_with};

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the head of `POST /v1/check` in HPACK, by the static table.
fn head() -> Vec<u8> {
    let mut head = vec![0x83, 0x86, 0x04, 9];
    head.extend(b"/v1/check");
    head.extend([0x01, 1, b'x']);
    head
}

fn open(address: std::net::SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(PREFACE).unwrap();
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
    stream
}

/// Returns the types of the frames until the connection ends.
fn kinds(stream: &mut TcpStream) -> Vec<u8> {
    let mut kinds = Vec::new();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        kinds.push(head[3]);
        if stream.read_exact(&mut payload).is_err() {
            break;
        }
    }
    kinds
}

#[test]
fn curl_uses_http2() {
    let server = start(RULES);
    let url = format!("http://{}/v1/check", server.http());
    let options = ["-sS", "--http2-prior-knowledge", "-w", " %{http_version}", "-d", "{}"];
    let output = Command::new("curl").args(options).arg(&url).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.starts_with("{\"allowed\":true") && output.ends_with(" 2"), "{output}");
}

#[test]
fn many_requests_share_a_connection() {
    let server = start("rules: [{ name: all, limit: 150/h fixed first_hit }]");
    let statuses = server.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.http()).await.unwrap();
        let (client, connection) =
            http2::handshake::<_, _, Full<&[u8]>>(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let mut requests = JoinSet::new();
        for _ in 0..200 {
            let mut client = client.clone();
            requests.spawn(async move {
                let request = Request::post("http://tollgate/v1/check?status=true")
                    .body(Full::new(b"{}".as_slice()))
                    .unwrap();
                client.send_request(request).await.unwrap().status().as_u16()
            });
        }
        requests.join_all().await
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 150);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 50);
}

#[test]
fn rapid_resets_end_the_connection_and_not_the_server() {
    let server = start(RULES);
    let mut stream = open(server.http());
    let mut flood = Vec::new();
    for number in 0..5_000 {
        let id = 2 * number + 1;
        flood.extend(frame(HEADERS, 0x4, id, &head()));
        flood.extend(frame(RESET, 0, id, &8_u32.to_be_bytes()));
    }
    let _ = stream.write_all(&flood);
    assert!(kinds(&mut stream).contains(&GO_AWAY));
    assert_eq!(HttpClient::connect(server.http()).post("/v1/check", "{}").status, 200);
}

#[test]
fn endless_continuations_end_the_connection() {
    let server = start(RULES);
    let mut stream = open(server.http());
    let _ = stream.write_all(&frame(HEADERS, 0, 1, &head()));
    // A header block without an end: each frame adds a header that is not indexed.
    let mut field = vec![0x00, 1, b'a', 0x7f, 0x80, 0x1f];
    field.extend(vec![b'v'; 127 + 15 * 256 + 128]);
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&frame(CONTINUATION, 0, 1, &field[..4000])).is_ok() {
        sent += 4009;
    }
    assert!(sent < 16 << 20, "the server does not stop reading");
    assert_eq!(HttpClient::connect(server.http()).post("/v1/check", "{}").status, 200);
}

#[test]
fn settings_and_data_floods_are_harmless() {
    let server = start(RULES);
    let mut stream = open(server.http());
    let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[]).repeat(10_000));
    let mut data = open(server.http());
    let _ = data.write_all(&frame(DATA, 0, 1, &[0; 100]).repeat(1000));
    assert!(kinds(&mut data).contains(&GO_AWAY), "data without a stream");
    assert_eq!(HttpClient::connect(server.http()).post("/v1/check", "{}").status, 200);
}

#[test]
fn a_head_without_an_end_times_out() {
    let server = start_with(RULES, |config| {
        config.bounds.header_timeout = Duration::from_millis(300);
        config.bounds.idle_timeout = 10 * DEADLINE;
    });
    for address in [server.http(), server.grpc()] {
        let mut stream = open(address);
        stream.write_all(&frame(HEADERS, 0, 1, &head())).unwrap();
        // Ends with an error of the read if the server keeps the connection.
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        assert!(!matches!(&end, Err(error) if error.kind() == ErrorKind::WouldBlock), "{end:?}");
    }
}
