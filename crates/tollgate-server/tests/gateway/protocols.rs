//! HTTP/1.1 and HTTP/2 on both sides, with and without TLS.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tollgate_rig::{AfterResponse, Upstream};

use crate::support::{Gateway, OPEN, start, start_with};

type Body =
    StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

/// Says what it was sent, as HTTP/2 with trailers.
async fn tell(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let version = if head.version == Version::HTTP_2 { "2" } else { "1" };
    let mut fields: Vec<String> = head
        .headers
        .iter()
        .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
        .collect();
    fields.sort();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().map_or(0, |trailers| trailers.len());
    let body = String::from_utf8(body.to_bytes().to_vec()).unwrap();
    let text =
        format!("{version} {} {}\n{}\n{body} {trailers}", head.method, head.uri, fields.join("\n"));
    let mut trailers = hyper::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = vec![Ok(Frame::data(Bytes::from(text))), Ok(Frame::trailers(trailers))];
    let body = StreamBody::new(futures_util::stream::iter(frames));
    Ok(Response::builder().header("trailer", "grpc-status").body(body).unwrap())
}

/// An upstream of HTTP/2, on the gateway's runtime.
async fn http2_upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(tell)));
        }
    });
    address
}

/// An upstream with TLS; `protocols` are what it offers.
async fn tls_upstream(
    chain: &rcgen::Certificate,
    key: &rcgen::KeyPair,
    protocols: &[&str],
) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = builder.with_single_cert(vec![chain.der().clone()], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service_fn(tell)).await;
            });
        }
    });
    address
}

fn curl(gateway: &Gateway, options: &[&str], path: &str) -> String {
    let url = format!("http://{}{path}", gateway.address());
    let output =
        Command::new("curl").args(["-sS", "-m", "20"]).args(options).arg(url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// One request over HTTP/2: status, body and trailers.
async fn ask(gateway: SocketAddr, request: Request<Full<Bytes>>) -> (u16, String, usize) {
    let stream = tokio::net::TcpStream::connect(gateway).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap();
    let trailers = body.trailers().map_or(0, |trailers| trailers.len());
    (status, String::from_utf8(body.to_bytes().to_vec()).unwrap(), trailers)
}

#[test]
fn clients_of_http2_reach_upstreams_of_http1() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let said = curl(&gateway, &["--http2-prior-knowledge", "-w", " %{http_version}"], "/a//b?c");
    assert_eq!(said, "upstream 2");
    let seen = upstream.last();
    assert_eq!(
        (seen.line.as_str(), seen.all("host").count()),
        ("GET /a/b?c HTTP/1.1", 1),
        "{seen:?}"
    );
    let request = Request::post("http://shop.test/x")
        .header("cookie", "a=b")
        .header("cookie", "c=d")
        .body(Full::new(Bytes::from("hello")));
    let answer = gateway.block_on(ask(gateway.address(), request.unwrap()));
    assert_eq!(answer.0, 200);
    let seen = upstream.last();
    assert_eq!((seen.header("host"), seen.header("cookie")), (Some("shop.test"), Some("a=b; c=d")));
    assert_eq!(seen.text(), "hello");
    let request = Request::get("http://shop.test/x").header("host", "other.test");
    let answer = gateway.block_on(ask(gateway.address(), request.body(Full::default()).unwrap()));
    assert_eq!(answer.0, 400, "{answer:?}");
    assert_eq!(upstream.count(), 2);
}

#[test]
fn upstreams_of_http2_are_reached_from_both_with_trailers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let upstream = runtime.block_on(http2_upstream());
    let gateway = start_with(OPEN, &[&format!("h2c://{upstream}")], |_| {});
    let request = Request::post("http://shop.test/grpc.Service/Call").header("te", "trailers");
    let request = request.body(Full::new(Bytes::from("hello"))).unwrap();
    let (status, said, trailers) = gateway.block_on(ask(gateway.address(), request));
    assert_eq!((status, trailers), (200, 1), "{said}");
    assert!(said.starts_with("2 POST http://shop.test/grpc.Service/Call\n"), "{said}");
    assert!(said.contains("\nte=trailers\n") && said.ends_with("\nhello 0"), "{said}");
    let mut client = gateway.connect();
    let answer = client.get_with("/one", &[("TE", "trailers"), ("Connection", "TE")]);
    assert!(answer.text().starts_with("2 GET http://tollgate.test/one\n"), "{answer:?}");
    assert_eq!(answer.trailers, [("grpc-status".to_owned(), "0".to_owned())]);
    assert!(answer.text().contains("x-forwarded-for=127.0.0.1"));
}

#[test]
fn upstreams_with_tls_are_known_by_their_certificates() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, certificate.pem()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (protocols, spoken) in
        [(&["h2", "http/1.1"][..], "2 GET"), (&["http/1.1"], "1 GET"), (&[], "1 GET")]
    {
        let upstream = runtime.block_on(tls_upstream(&certificate, &key, protocols));
        let gateway = |host: &str| {
            let url = format!("https://{host}:{}", upstream.port());
            start_with(OPEN, &[&url], |config| {
                config.gateway.as_mut().unwrap().upstream_ca = Some(ca.clone());
            })
        };
        let answer = gateway("localhost").connect().get("/x");
        assert!(answer.text().starts_with(spoken), "{protocols:?}: {answer:?}");
        assert_eq!(gateway("127.0.0.1").connect().get("/x").status(), 503, "not its name");
    }
}

#[test]
fn sockets_in_the_file_system_and_names_of_upstreams() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        use std::io::{BufRead, BufReader};
        for stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream);
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
                head += &std::mem::take(&mut line);
            }
            let length = head.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}");
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    let gateway = start_with(OPEN, &[&format!("unix:{}", path.display())], |_| {});
    assert!(gateway.connect().get("/a").text().contains("host: tollgate.test"));
    let upstream = Upstream::start();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().upstream_host = true;
    });
    assert_eq!(gateway.connect().get("/").status(), 200);
    assert_eq!(upstream.last().header("host"), Some(&*upstream.address().to_string()));
    assert_eq!(upstream.last().header("x-forwarded-host"), Some("tollgate.test"));
}

#[test]
fn answers_without_bodies() {
    let upstream = Upstream::answering(|request, stream| {
        let status = request.target().trim_start_matches('/');
        let answer = format!("HTTP/1.1 {status} X\r\nx-length: 1\r\n\r\n");
        let _ = stream.write_all(answer.as_bytes());
        AfterResponse::Keep
    });
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    for status in [204, 304] {
        assert_eq!(client.get(&format!("/{status}")).status(), status);
    }
}
