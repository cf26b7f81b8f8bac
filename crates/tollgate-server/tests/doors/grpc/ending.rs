//! How connections end: with the server, when nobody is there, when nothing is said.

use std::time::Duration;

use prost::Message;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use super::client::{Client, PATH, framed, question, read};
use super::{start, start_also};
use crate::support::DEADLINE;

#[test]
fn a_server_that_leaves_answers_what_is_under_way() {
    let server = start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut client, answer, mut body) = runtime.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        assert_eq!(client.hit("user", "ann").await, (1, 2));
        let (answer, body) = client.begin(PATH).await;
        // The server has seen the call begin once it answers another.
        assert_eq!(client.hit("user", "ann").await, (1, 1));
        (client, answer, body)
    });
    let stopping = std::thread::spawn(move || server.stop());
    runtime.block_on(async {
        let message = framed(&question(&[("user", "ann")]).encode_to_vec());
        body.send_data(message, true).unwrap();
        let answer = read(timeout(DEADLINE, answer).await.unwrap().unwrap()).await;
        assert_eq!(answer.response().statuses[0].limit_remaining, 0);
        let ended = timeout(DEADLINE, &mut client.connection).await.unwrap().unwrap();
        assert!(ended.is_ok(), "in good order: {ended:?}");
    });
    stopping.join().unwrap();
}

#[test]
fn health_says_that_the_server_leaves() {
    let server = start_also(|config| config.drain.notice = Duration::from_millis(200));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_client, mut watch) = runtime.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        let (answer, mut body) = client.begin("/grpc.health.v1.Health/Watch").await;
        body.send_data(framed(b""), true).unwrap();
        let mut watch = answer.await.unwrap().into_body();
        assert_eq!(watch.data().await.unwrap().unwrap()[..], [0, 0, 0, 0, 2, 8, 1], "SERVING");
        (client, watch)
    });
    let stopping = std::thread::spawn(move || server.stop());
    runtime.block_on(async {
        let told = timeout(DEADLINE, watch.data()).await.unwrap().unwrap().unwrap();
        assert_eq!(told[..], [0, 0, 0, 0, 2, 8, 2], "NOT_SERVING");
        assert!(timeout(DEADLINE, watch.data()).await.unwrap().is_none());
        let trailers = watch.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "14");
    });
    stopping.join().unwrap();
}

#[test]
fn who_says_nothing_is_let_go() {
    let server = start_also(|config| {
        config.bounds.header_timeout = Duration::from_millis(500);
        config.bounds.idle_timeout = Duration::from_millis(1_000);
    });
    server.block_on(async {
        let mut silent = tokio::net::TcpStream::connect(server.grpc()).await.unwrap();
        let mut bytes = Vec::new();
        timeout(DEADLINE, silent.read_to_end(&mut bytes)).await.unwrap().unwrap();

        let mut client = Client::connect(server.grpc()).await;
        assert_eq!(client.hit("user", "ann").await, (1, 2));
        let ended = timeout(DEADLINE, &mut client.connection).await.unwrap().unwrap();
        assert!(ended.is_ok(), "in good order: {ended:?}");
    });
}

#[test]
fn who_is_gone_without_a_word_is_noticed() {
    let server = start_also(|config| config.bounds.idle_timeout = Duration::from_millis(1_600));
    server.block_on(async {
        let mut client = Client::connect(server.grpc()).await;
        // A watcher is never idle, but nobody answers pings once nothing drives the client.
        let (answer, mut body) = client.begin("/grpc.health.v1.Health/Watch").await;
        body.send_data(framed(b""), true).unwrap();
        let mut watch = answer.await.unwrap().into_body();
        watch.data().await.unwrap().unwrap();
        let pongs = timeout(Duration::from_millis(1_200), &mut client.connection).await;
        assert!(pongs.is_err(), "who answers pings may stay");
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
fn who_is_silent_gives_way_to_newcomers() {
    let server = start_also(|config| config.bounds.connections = Some(3));
    server.block_on(async {
        let mut silent = Vec::new();
        for _ in 0..3 {
            silent.push(Client::connect(server.grpc()).await);
        }
        let mut newcomer = Client::connect(server.grpc()).await;
        assert_eq!(newcomer.hit("user", "ann").await, (1, 2));
        let ended = async {
            while !silent.iter().any(|client| client.connection.is_finished()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(DEADLINE, ended).await.expect("nobody left");
        assert_eq!(newcomer.hit("user", "ann").await, (1, 1));
    });
}
