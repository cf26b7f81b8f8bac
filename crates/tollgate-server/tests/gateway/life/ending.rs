//! Going down under load: what was sent on is answered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;
use tollgate_rig::{AfterResponse, Upstream, until};

use crate::support::{OPEN, start, start_with};

#[test]
fn no_answer_is_lost_under_load() {
    let upstream = Upstream::start();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.drain.notice = std::time::Duration::from_millis(100);
    });
    let answered = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, answered) = (gateway.connect(), answered.clone());
            std::thread::spawn(move || {
                loop {
                    client.write("GET / HTTP/1.1\r\nHost: stub\r\n\r\n");
                    match client.read() {
                        Some(answer) => {
                            assert_eq!(answer.status(), 200);
                            answered.fetch_add(1, Ordering::SeqCst);
                            if answer.header("connection") == Some("close") {
                                assert_eq!(client.rest(), Some(vec![]), "in good order");
                                break true;
                            }
                        }
                        // Let go while it was idle.
                        None => break false,
                    }
                }
            })
        })
        .collect();
    until("there is load", || answered.load(Ordering::SeqCst) > 200);
    gateway.stop().join().unwrap();
    let told =
        clients.into_iter().map(|client| client.join().unwrap()).filter(|told| *told).count();
    assert_eq!(answered.load(Ordering::SeqCst), upstream.count(), "sent on and answered");
    assert!(told > 0, "who asks is told that the connection ends");
}

#[test]
fn what_is_under_way_is_finished() {
    let (tell, told) = mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    let upstream = Upstream::answering(move |_, stream| {
        let _ = told.lock().unwrap().recv();
        let _ =
            std::io::Write::write_all(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
        AfterResponse::Keep
    });
    let gateway = start(OPEN, &upstream);
    let address = gateway.address();
    let mut client = gateway.connect();
    client.write("GET / HTTP/1.1\r\nHost: stub\r\n\r\n");
    until("it is under way", || upstream.count() == 1);
    let stopping = gateway.stop();
    until("nobody is let in", || std::net::TcpStream::connect(address).is_err());
    tell.send(()).unwrap();
    let answer = client.read().unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "late"));
    assert_eq!(client.rest(), Some(vec![]));
    stopping.join().unwrap();
}

#[test]
fn no_stream_is_lost_under_load() {
    let upstream = Upstream::start();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.drain.notice = std::time::Duration::from_millis(50);
    });
    let address = gateway.address();
    let answered = Arc::new(AtomicUsize::new(0));
    let counting = answered.clone();
    let load = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let (client, connection) =
                http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                    .await
                    .unwrap();
            let connection = tokio::spawn(connection);
            let mut streams = JoinSet::new();
            for _ in 0..16 {
                let (mut client, counting) = (client.clone(), counting.clone());
                streams.spawn(async move {
                    loop {
                        // What is refused because the server leaves was never looked at.
                        if client.ready().await.is_err() {
                            break;
                        }
                        let request = Request::get("http://stub/").body(Empty::new()).unwrap();
                        let Ok(response) = client.send_request(request).await else { break };
                        assert_eq!(response.status(), 200);
                        let body = response.into_body().collect().await.unwrap().to_bytes();
                        assert_eq!(&body[..], b"upstream");
                        counting.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            drop(client);
            streams.join_all().await;
            connection.await.unwrap().expect("the connection ends in good order");
        });
    });
    until("there is load", || answered.load(Ordering::SeqCst) > 200);
    gateway.stop().join().unwrap();
    load.join().unwrap();
    assert_eq!(answered.load(Ordering::SeqCst), upstream.count(), "sent on and answered");
}
