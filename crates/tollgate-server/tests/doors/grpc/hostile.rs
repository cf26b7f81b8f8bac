//! Hostile clients: they are disconnected, memory stays bounded, and others are served.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Code;

use super::client::{GrpcClient, PATH, descriptors_request, finish, framed, read};
use super::{start, start_configured};
use crate::support::DEADLINE;

/// The maximum growth of this process during an attack, in bytes.
const GROWTH: usize = 48 << 20;

/// Returns the memory of this process, which includes the server's.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

pub(super) const HEADERS: u8 = 1;
const RESET: u8 = 3;
const CONTINUATION: u8 = 9;
pub(super) const END_HEADERS: u8 = 4;

/// Returns the head of a call in HPACK without indexing.
pub(super) fn head() -> Vec<u8> {
    let mut head = vec![0x83, 0x86, 0x04, PATH.len() as u8];
    head.extend(PATH.as_bytes());
    head.extend(b"\x01\x01x\x0f\x10\x10application/grpc");
    head
}

/// Writes at most `most` bytes until the server disconnects; returns how many.
async fn flood(address: SocketAddr, most: usize, mut next: impl FnMut() -> Vec<u8>) -> usize {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    write.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    // Responses are read, so that they do not make the server stop reading.
    let end = tokio::spawn(async move {
        let mut ignored = vec![0; 64 << 10];
        while read.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
    });
    let mut written = 0;
    while written < most && !end.is_finished() {
        let bytes = next();
        if write.write_all(&bytes).await.is_err() {
            break;
        }
        written += bytes.len();
        tokio::task::yield_now().await;
    }
    if written < most {
        timeout(DEADLINE, end).await.unwrap().unwrap();
    }
    written
}

#[test]
fn rapid_resets_close_the_connection() {
    let server = start();
    server.block_on(async {
        let before = resident();
        let (head, mut stream) = (head(), 1);
        let most = 64 << 20;
        let written = flood(server.grpc(), most, || {
            let mut bytes = Vec::new();
            for _ in 0..100 {
                bytes.extend(frame(HEADERS, END_HEADERS, stream, &head));
                bytes.extend(frame(RESET, 0, stream, &8u32.to_be_bytes()));
                stream += 2;
            }
            bytes
        });
        assert!(written.await < most, "the client was not disconnected");
        assert!(resident() < before + GROWTH);
        assert_eq!(GrpcClient::connect(server.grpc()).await.hit("user", "ann").await, (1, 2));
    });
}

#[test]
fn endless_heads_close_the_connection() {
    let server = start();
    server.block_on(async {
        let before = resident();
        let mut is_first = true;
        // One header that never ends, and many complete ones.
        let mut block = Vec::new();
        for _ in 0..300 {
            block.extend(b"\x00\x03x-y\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        }
        let most = 64 << 20;
        let written = flood(server.grpc(), most, || {
            let kind = if std::mem::take(&mut is_first) { HEADERS } else { CONTINUATION };
            frame(kind, 0, 1, &block)
        });
        assert!(written.await < most, "the client was not disconnected");
        assert!(resident() < before + GROWTH);
        assert_eq!(GrpcClient::connect(server.grpc()).await.hit("user", "ann").await, (1, 2));
    });
}

#[test]
fn a_message_of_100_mb_is_refused_before_it_is_read() {
    let server = start();
    server.block_on(async {
        let before = resident();
        let mut client = GrpcClient::connect(server.grpc()).await;
        let (response, mut body) = client.begin(PATH).await;
        let mut prefix = vec![0];
        prefix.extend((100u32 << 20).to_be_bytes());
        body.send_data(prefix.into(), false).unwrap();
        let sending = async {
            let chunk = Bytes::from(vec![7; 16 << 10]);
            for _ in 0..(100 << 20) / chunk.len() {
                body.reserve_capacity(chunk.len());
                let capacity = std::future::poll_fn(|context| body.poll_capacity(context)).await;
                let Some(Ok(capacity)) = capacity else { return };
                // The refusal may come at any point.
                if body.send_data(chunk.slice(..capacity.min(chunk.len())), false).is_err() {
                    return;
                }
            }
        };
        timeout(DEADLINE, sending).await.unwrap();
        let response = read(response.await.unwrap()).await;
        assert_eq!(response.code, Code::ResourceExhausted as i32);
        assert!(
            response.status_message.contains("at most 1048576 bytes"),
            "{}",
            response.status_message
        );
        assert!(resident() < before + GROWTH);
        assert_eq!(client.hit("user", "ann").await, (1, 2), "the connection goes on");
    });
}

#[test]
fn a_thousand_descriptors_are_allowed_and_ten_thousand_refused() {
    let server = start();
    server.block_on(async {
        let before = resident();
        let mut client = GrpcClient::connect(server.grpc()).await;
        for _ in 0..20 {
            let response = client.call(&descriptors_request(&[("user", "a"); 10_000])).await;
            assert_eq!(response.code, Code::InvalidArgument as i32);
            assert!(
                response.status_message.contains("at most 1000"),
                "{}",
                response.status_message
            );
        }
        let response = client.call(&descriptors_request(&[("heavy", "a"); 1_000])).await.response();
        assert_eq!(response.statuses.len(), 1_000);
        let passed = response.statuses.iter().filter(|status| status.code == 1).count();
        assert_eq!(passed, 10);
        assert!(resident() < before + GROWTH);
    });
}

#[test]
fn a_message_of_empty_descriptors_uses_little_memory() {
    let server = start();
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        assert_eq!(client.hit("user", "ann").await, (1, 2));
        let before = resident();
        // Each descriptor takes two bytes: the tag and a length of zero.
        let message = framed(&[0x12, 0].repeat(500_000));
        for _ in 0..5 {
            let (response, mut body) = client.begin(PATH).await;
            finish(&mut body, message.clone());
            let response = read(response.await.unwrap()).await;
            assert_eq!(response.code, Code::InvalidArgument as i32, "{}", response.status_message);
        }
        assert!(resident() < before + (8 << 20), "{} MB", (resident() - before) >> 20);
    });
}

#[test]
fn endless_messages_are_bounded_by_the_window_and_time_out() {
    let server = start_configured(|config| config.bounds.header_timeout = Duration::from_secs(1));
    server.block_on(async {
        let before = resident();
        let mut client = GrpcClient::connect(server.grpc()).await;
        let mut begun = Vec::new();
        for _ in 0..200 {
            let (response, mut body) = client.begin(PATH).await;
            let mut prefix = vec![0];
            prefix.extend((1u32 << 20).to_be_bytes());
            body.send_data(prefix.into(), false).unwrap();
            body.reserve_capacity(1 << 20);
            begun.push((response, body));
        }
        let junk = Bytes::from(vec![7; 1 << 20]);
        for (_, body) in &mut begun {
            let capacity = body.capacity().min(junk.len());
            // On a slow machine the first calls have timed out by now.
            let _ = body.send_data(junk.slice(..capacity), false);
        }
        for (response, _) in begun {
            let gone = timeout(DEADLINE, response).await.unwrap();
            assert!(gone.is_err(), "the call did not time out");
        }
        assert!(resident() < before + GROWTH);
        let message = framed(&descriptors_request(&[("user", "ann")]).encode_to_vec());
        let (response, mut body) = client.begin(PATH).await;
        finish(&mut body, message);
        assert_eq!(read(response.await.unwrap()).await.response().overall_code, 1);
    });
}

#[test]
fn unfinished_messages_of_all_connections_share_one_budget() {
    const CONNECTIONS: usize = 60;
    let server = start_configured(|config| config.bounds.header_timeout = Duration::from_secs(300));
    server.block_on(async {
        let before = resident();
        let mut open = Vec::new();
        let mut answers = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let mut client = GrpcClient::connect(server.grpc()).await;
            let (response, mut body) = client.begin(PATH).await;
            let mut message = vec![0];
            message.extend((1u32 << 20).to_be_bytes());
            message.resize(1_000_000, 0);
            body.send_data(message.into(), false).unwrap();
            answers.spawn(async move { read(response.await.unwrap()).await });
            open.push((client, body));
        }
        // Messages that are taken are not answered; refusals come at once.
        for _ in 0..CONNECTIONS / 4 {
            let refused = timeout(DEADLINE, answers.join_next()).await.unwrap().unwrap().unwrap();
            assert_eq!(refused.code, Code::Unavailable as i32, "{}", refused.status_message);
        }
        assert!(resident() < before + 3 * GROWTH, "{} MB", (resident() - before) >> 20);
        assert_eq!(GrpcClient::connect(server.grpc()).await.hit("user", "ann").await, (1, 2));
    });
}

#[test]
fn health_checks_that_do_not_end_time_out() {
    let server = start_configured(|config| config.bounds.header_timeout = Duration::from_secs(1));
    server.block_on(async {
        let before = resident();
        let mut client = GrpcClient::connect(server.grpc()).await;
        let mut begun = Vec::new();
        for _ in 0..100 {
            let (response, mut body) = client.begin("/grpc.health.v1.Health/Check").await;
            // A message of 16 KiB, of which half comes.
            let mut message = vec![0, 0, 0, 0x40, 0];
            message.resize(8 << 10, 0);
            let _ = body.send_data(message.into(), false);
            begun.push((response, body));
        }
        for (response, _body) in begun {
            let gone = timeout(DEADLINE, response).await.unwrap();
            assert!(gone.is_err(), "the call did not time out");
        }
        let (response, mut body) = client.begin("/grpc.health.v1.Health/Check").await;
        let mut large = vec![0];
        large.extend((1u32 << 20).to_be_bytes());
        let _ = body.send_data(large.into(), false);
        let refused = read(timeout(DEADLINE, response).await.unwrap().unwrap()).await;
        assert_eq!(refused.code, Code::OutOfRange as i32, "{}", refused.status_message);
        assert!(resident() < before + GROWTH);
    });
}

#[test]
fn the_memory_of_unread_responses_is_bounded() {
    let server = start();
    server.block_on(async {
        let before = resident();
        let message = framed(&descriptors_request(&[("heavy", "a"); 900]).encode_to_vec());
        // The time of the disconnect varies, so the client reconnects until it has sent enough.
        let mut streams = Vec::new();
        let mut written = 0;
        while written < 4 << 20 {
            let mut stream = TcpStream::connect(server.grpc()).await.unwrap();
            // The client opens no window for responses.
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
            stream.write_all(&bytes).await.unwrap();
            for number in 0..5_000u32 {
                let mut call = frame(HEADERS, END_HEADERS, 2 * number + 1, &head());
                call.extend(frame(0, 1, 2 * number + 1, &message));
                let sent = timeout(Duration::from_millis(500), stream.write_all(&call)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    break;
                }
                written += call.len();
            }
            streams.push(stream);
            assert!(resident() < before + GROWTH, "{} MB", (resident() - before) >> 20);
        }
        assert_eq!(GrpcClient::connect(server.grpc()).await.hit("user", "ann").await, (1, 2));
    });
}
