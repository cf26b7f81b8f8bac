//! The end of connections: shutdown, dead clients and idle clients.

use std::time::Duration;

use prost::Message;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::client::{GrpcClient, PATH, descriptors_request, framed, read};
use super::{start, start_configured};
use crate::support::DEADLINE;

#[test]
fn a_draining_server_answers_running_calls() {
    let server = start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut client, response, mut body) = runtime.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        assert_eq!(client.hit("user", "ann").await, (1, 2));
        let (response, body) = client.begin(PATH).await;
        // Once the server answers a second call, it has received the first.
        assert_eq!(client.hit("user", "ann").await, (1, 1));
        (client, response, body)
    });
    let stopping = std::thread::spawn(move || server.stop());
    runtime.block_on(async {
        let message = framed(&descriptors_request(&[("user", "ann")]).encode_to_vec());
        body.send_data(message, true).unwrap();
        let response = read(timeout(DEADLINE, response).await.unwrap().unwrap()).await;
        assert_eq!(response.response().statuses[0].limit_remaining, 0);
        let ended = timeout(DEADLINE, &mut client.connection).await.unwrap().unwrap();
        assert!(ended.is_ok(), "in good order: {ended:?}");
    });
    stopping.join().unwrap();
}

#[test]
fn health_reports_a_draining_server() {
    let server = start_configured(|config| config.drain.notice = Duration::from_millis(200));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_client, mut watch) = runtime.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        let (response, mut body) = client.begin("/grpc.health.v1.Health/Watch").await;
        body.send_data(framed(b""), true).unwrap();
        let mut watch = response.await.unwrap().into_body();
        assert_eq!(watch.data().await.unwrap().unwrap()[..], [0, 0, 0, 0, 2, 8, 1], "SERVING");
        (client, watch)
    });
    let stopping = std::thread::spawn(move || server.stop());
    runtime.block_on(async {
        let status = timeout(DEADLINE, watch.data()).await.unwrap().unwrap().unwrap();
        assert_eq!(status[..], [0, 0, 0, 0, 2, 8, 2], "NOT_SERVING");
        assert!(timeout(DEADLINE, watch.data()).await.unwrap().is_none());
        let trailers = watch.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "14");
    });
    stopping.join().unwrap();
}

#[test]
fn an_idle_client_is_disconnected() {
    let server = start_configured(|config| {
        config.bounds.header_timeout = Duration::from_millis(500);
        config.bounds.idle_timeout = Duration::from_millis(1_000);
    });
    server.block_on(async {
        let mut silent = tokio::net::TcpStream::connect(server.grpc()).await.unwrap();
        let mut bytes = Vec::new();
        timeout(DEADLINE, silent.read_to_end(&mut bytes)).await.unwrap().unwrap();

        let mut client = GrpcClient::connect(server.grpc()).await;
        assert_eq!(client.hit("user", "ann").await, (1, 2));
        let ended = timeout(DEADLINE, &mut client.connection).await.unwrap().unwrap();
        assert!(ended.is_ok(), "in good order: {ended:?}");
    });
}

#[test]
fn a_dead_client_is_detected() {
    let server =
        start_configured(|config| config.bounds.idle_timeout = Duration::from_millis(1_600));
    server.block_on(async {
        let mut client = GrpcClient::connect(server.grpc()).await;
        // A health watch is never idle, but pings stay unanswered once the client is not polled.
        let (response, mut body) = client.begin("/grpc.health.v1.Health/Watch").await;
        body.send_data(framed(b""), true).unwrap();
        let mut watch = response.await.unwrap().into_body();
        watch.data().await.unwrap().unwrap();
        let pongs = timeout(Duration::from_millis(1_200), &mut client.connection).await;
        assert!(pongs.is_err(), "a client that answers pings stays connected");
    });
    server.block_on(async {
        use tokio::io::AsyncWriteExt;
        let mut dead = tokio::net::TcpStream::connect(server.grpc()).await.unwrap();
        dead.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let mut bytes = Vec::new();
        timeout(DEADLINE, dead.read_to_end(&mut bytes)).await.unwrap().unwrap();
    });
}

#[test]
fn at_the_cap_an_idle_connection_is_closed() {
    let server = start_configured(|config| config.bounds.connections = Some(3));
    server.block_on(async {
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(GrpcClient::connect(server.grpc()).await);
        }
        let mut client = GrpcClient::connect(server.grpc()).await;
        assert_eq!(client.hit("user", "ann").await, (1, 2));
        let ended = async {
            while !silent.iter().any(|client| client.connection.is_finished()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, ended).await.expect("no connection was closed");
        assert_eq!(client.hit("user", "ann").await, (1, 1));
    });
}
