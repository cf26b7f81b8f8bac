//! Bodies that proxies tend to lose: those of GET and HEAD, and trailers.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tollgate_rig::Upstream;

use crate::support::{OPEN, start, start_with};

type Frames = std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>;

/// A body in two parts, without a length.
fn parts() -> StreamBody<futures_util::stream::Iter<Frames>> {
    let frames = vec![Ok(Frame::data(Bytes::from("hel"))), Ok(Frame::data(Bytes::from("lo")))];
    StreamBody::new(futures_util::stream::iter(frames))
}

#[test]
fn the_chunked_body_of_a_get_is_forwarded() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    for method in ["GET", "HEAD", "DELETE", "POST"] {
        client.write(format!(
            "{method} /{method} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
             3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
        ));
        assert_eq!(client.read_answer_to(method).unwrap().status(), 200, "{method}");
        let seen = upstream.last();
        assert_eq!((seen.method(), seen.text().as_str()), (method, "hello"));
        assert_eq!(seen.header("transfer-encoding"), Some("chunked"));
        assert_eq!(seen.header("content-length"), None);
    }
    client.write("GET /length HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.read().unwrap().status(), 200);
    let seen = upstream.last();
    assert_eq!((seen.text().as_str(), seen.header("content-length")), ("hello", Some("5")));
    assert_eq!(client.get("/none").status(), 200);
    assert_eq!(upstream.last().header("transfer-encoding"), None, "no body, no framing");
    assert_eq!(upstream.connections(), 1, "the framing is right, so the connection is kept");
}

#[test]
fn the_body_of_a_get_on_http2_is_forwarded_without_its_length() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let address = gateway.address();
    for method in ["GET", "HEAD"] {
        let status = gateway.block_on(async {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let handshake =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
            let (mut sender, connection) = handshake.await.unwrap();
            tokio::spawn(connection);
            let request = Request::builder().method(method).uri("http://a/x").body(parts());
            sender.send_request(request.unwrap()).await.unwrap().status()
        });
        assert_eq!(status, 200);
        let seen = upstream.last();
        assert_eq!((seen.method(), seen.text().as_str()), (method, "hello"));
    }
}

/// Starts an upstream of HTTP/2 that sends trailers, announced or not, and a length or not.
async fn trailing_upstream() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |request: Request<hyper::body::Incoming>| async move {
        let mut response = Response::builder();
        let query = request.uri().query().unwrap_or_default().to_owned();
        if query.contains("announced") {
            response = response.header("trailer", "x-sum");
        }
        if query.contains("length") {
            response = response.header("content-length", "5");
        }
        let body = request.into_body().collect().await;
        assert!(body.is_ok());
        let trailers = HeaderMap::from_iter([
            ("grpc-status".parse().unwrap(), "0".parse().unwrap()),
            ("x-sum".parse().unwrap(), "5d41".parse().unwrap()),
        ]);
        let frames: Vec<Result<_, Infallible>> =
            vec![Ok(Frame::data(Bytes::from("hello"))), Ok(Frame::trailers(trailers))];
        Ok::<_, Infallible>(
            response.body(StreamBody::new(futures_util::stream::iter(frames))).unwrap(),
        )
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    address
}

#[test]
fn trailers_of_http2_reach_clients_of_http1_that_take_them() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let upstream = runtime.block_on(trailing_upstream());
    let gateway = start_with(OPEN, &[&format!("h2c://{upstream}")], |_| {});
    let mut client = gateway.connect();
    let takes = [("TE", "trailers"), ("Connection", "TE")];
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for target in ["/?announced", "/?announced&length"] {
        let answer = client.get_with(target, &takes);
        assert_eq!((answer.text().as_str(), answer.header("trailer")), ("hello", Some("x-sum")));
        assert_eq!(answer.trailers, [pair("x-sum", "5d41")], "{target}: {answer:?}");
    }
    for target in ["/?", "/?length"] {
        let answer = client.get_with(target, &takes);
        assert_eq!(answer.trailers, [pair("grpc-status", "0")], "{target}: {answer:?}");
        assert_eq!(answer.header("content-length"), None, "a length and chunks contradict");
    }
    let answer = client.get("/?announced&length");
    assert_eq!((answer.header("content-length"), answer.trailers.len()), (Some("5"), 0));
    let named = start_with(OPEN, &[&format!("h2c://{upstream}")], |config| {
        config.gateway.as_mut().unwrap().trailers = vec!["X-Sum".to_owned()];
    });
    let answer = named.connect().get_with("/", &takes);
    assert_eq!(answer.trailers, [pair("x-sum", "5d41")], "those of the settings");
    let request = Request::get("http://a/").version(Version::HTTP_2).body(String::new()).unwrap();
    let trailers = gateway.block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let answer = sender.send_request(request).await.unwrap();
        answer.into_body().collect().await.unwrap().trailers().map(HeaderMap::len)
    });
    assert_eq!(trailers, Some(2), "on HTTP/2 all of them, announced or not");
}
