//! Many requests on one connection of HTTP/2, and what comes after bodies.

use std::io::Write;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;
use tollgate_rig::{AfterResponse, Upstream};

use crate::programs::node;
use crate::support::{OPEN, start};

#[test]
fn many_streams_are_as_many_decisions() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: all, limit: 150/h fixed first_hit }]", &upstream);
    let statuses = gateway.block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        let (client, connection) =
            http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let mut asked = JoinSet::new();
        for n in 0..200 {
            let mut client = client.clone();
            asked.spawn(async move {
                let body = Full::new(Bytes::from(vec![b'x'; n]));
                let request = Request::post(format!("http://stub/{n}")).body(body).unwrap();
                let response = client.send_request(request).await.unwrap();
                let status = response.status().as_u16();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(status == 200, &body[..] == b"upstream");
                status
            });
        }
        asked.join_all().await
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 150);
    assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 50);
    assert_eq!((upstream.count(), gateway.decisions()), (150, 200));
    for seen in upstream.requests() {
        assert_eq!(seen.body.len().to_string(), seen.target()[1..]);
    }
}

#[test]
fn trailers_of_an_answer_arrive() {
    let upstream = Upstream::answering(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n";
        let _ = stream.write_all(format!("{head}5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n").as_bytes());
        AfterResponse::Keep
    });
    let gateway = start(OPEN, &upstream);
    gateway.block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        let (mut client, connection) =
            http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let request = Request::get("http://stub/").body(Full::default()).unwrap();
        let response = client.send_request(request).await.unwrap();
        let whole = response.into_body().collect().await.unwrap();
        let trailers = whole.trailers().cloned().expect("trailers");
        assert_eq!(
            (&trailers["x-sum"], &whole.to_bytes()[..]),
            (&"7".parse().unwrap(), &b"hello"[..])
        );
    });
}

#[test]
fn node_is_limited_stream_by_stream() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: all, limit: 60/h fixed first_hit }]", &upstream);
    let origin = format!("http://{}", gateway.address());
    let said = node("../gateway/scripts/http2.js", &[&origin, "100"]);
    assert_eq!(said.trim(), r#"{"200":60,"429":40}"#);
    assert_eq!((upstream.count(), gateway.decisions()), (60, 100));
}
