//! Workers that serve connections: one panic ends one of them, and no other.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tollgate_rig::WebClient;

use super::harness::{PanickingServer, start, start_with};
use crate::background::{BackgroundWorker, inject_panics};
use crate::config::{ApiKeyOptions, GatewayOptions, JwtKeySource, JwtOptions};

#[test]
fn a_panic_while_accepting_costs_no_door() {
    let server = start();
    // The loop of a door panics after its next connection, and starts again.
    server.break_worker(BackgroundWorker::Accept, 2, |server| {
        for _ in 0..2 {
            assert_eq!(server.call("GET", "/livez", "").status(), 200);
        }
    });
    server.stop();
}

#[test]
fn a_panic_in_a_connection_ends_that_connection() {
    let server = start();
    server.break_worker(BackgroundWorker::Connection, 1, |server| {
        let mut client = WebClient::connect(server.http());
        let _ = client.try_write("GET /livez HTTP/1.1\r\nhost: a\r\n\r\n");
        assert!(client.read().is_none(), "the connection is closed");
    });
    assert_eq!(server.metric("tollgate_connections{door=\"http\"}"), 1, "its slot is free again");
    server.stop();
}

/// A connection of HTTP/2 to a door.
async fn connect(address: std::net::SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn send(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Option<u16> {
    sender.ready().await.ok()?;
    let response = sender.send_request(request).await.ok()?;
    let status = response.status();
    let body = response.into_body().collect().await.ok()?;
    let is_grpc_ok = body.trailers().is_none_or(|trailers| trailers["grpc-status"] == "0");
    (status == StatusCode::OK && is_grpc_ok).then_some(200)
}

#[test]
fn a_panic_in_a_stream_ends_that_stream() {
    let server = start();
    let livez = || Request::get("http://localhost/livez").body(Full::default()).unwrap();
    let mut sender = server.block_on(connect(server.http()));
    server.break_worker(BackgroundWorker::Stream, 1, |server| {
        assert_eq!(server.block_on(send(&mut sender, livez())), None);
    });
    let again = server.block_on(send(&mut sender, livez()));
    assert_eq!(again, Some(200), "the other streams of the connection go on");
    drop(sender);
    server.stop();
}

#[test]
fn a_panic_in_a_grpc_call_ends_that_call() {
    let server = start();
    let health = || {
        Request::post("http://localhost/grpc.health.v1.Health/Check")
            .header("content-type", "application/grpc")
            .body(Full::from(Bytes::from_static(&[0; 5])))
            .unwrap()
    };
    let mut sender = server.block_on(connect(server.grpc()));
    server.break_worker(BackgroundWorker::GrpcCall, 1, |server| {
        assert_eq!(server.block_on(send(&mut sender, health())), None);
    });
    let again = server.block_on(send(&mut sender, health()));
    assert_eq!(again, Some(200), "the other calls of the connection go on");
    drop(sender);
    server.stop();
}

#[test]
fn the_telemetry_goes_on_after_a_panic() {
    let server = start();
    server.break_worker(BackgroundWorker::Telemetry, 2, |_| {});
    server.stop();
}

#[test]
fn statistics_are_sent_after_a_panic() {
    let server = start_with(|config| {
        config.telemetry.statsd = Some("udp://127.0.0.1:9".parse().unwrap());
        config.telemetry.statsd_interval = std::time::Duration::from_millis(20);
    });
    server.break_worker(BackgroundWorker::Statsd, 2, |_| {});
    server.stop();
}

#[test]
fn a_file_of_api_keys_is_followed_after_a_panic() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{} ann free\n", "0".repeat(64))).unwrap();
    let server = start_with(|config| {
        config.identity.api_keys = Some(ApiKeyOptions::new(file.path()));
    });
    server.break_worker(BackgroundWorker::IdentityFile, 2, |_| {});
    server.stop();
}

#[test]
fn the_url_of_token_keys_is_followed_after_a_panic() {
    let server = start_with(|config| {
        // Nothing listens there, so the keys are requested again and again.
        let keys = JwtKeySource::Url("http://127.0.0.1:9/jwks.json".parse().unwrap());
        let mut options = JwtOptions::new(keys);
        options.refresh = std::time::Duration::from_millis(20);
        config.identity.jwt = Some(options);
    });
    server.break_worker(BackgroundWorker::TokenKeys, 2, |_| {});
    server.stop();
}

#[test]
fn the_maintenance_of_an_upstream_goes_on_after_a_panic() {
    let server = start();
    server.break_worker(BackgroundWorker::Upstream, 2, |_| {});
    server.stop();
}

#[test]
fn a_panic_in_a_connection_to_an_upstream_is_a_bad_gateway_once() {
    // The HTTP door of another server speaks HTTP/2 without TLS.
    let upstream = start();
    let url = format!("h2c://{}", upstream.http()).parse().unwrap();
    let server = start_with(|config| {
        let listen = config.gateway.as_ref().unwrap().listen.clone();
        config.gateway = Some(GatewayOptions { listen, ..GatewayOptions::to(vec![url]) });
    });
    inject_panics(BackgroundWorker::UpstreamConnection, 1);
    let mut client = WebClient::connect(server.gateway());
    assert!(client.get("/livez").status() >= 500);
    tollgate_rig::until("the upstream is asked again", || {
        WebClient::connect(server.gateway()).get("/livez").status() == 200
    });
    let panics = server.ready()["panics"].to_string();
    assert!(panics.contains("upstream_connection"), "{panics}");
    server.stop();
    upstream.stop();
}

#[test]
fn an_interrupted_settlement_can_be_tried_again() {
    let server: PanickingServer = start();
    let body = r#"{"key":"ann","limit":"5000/d fixed first_hit","amount":4096}"#;
    let reserved = server.call("POST", "/v1/reserve", body);
    let reserved: serde_json::Value = serde_json::from_slice(&reserved.body).unwrap();
    let settle = format!("/v1/reservations/{}/settle", reserved["id"].as_str().unwrap());
    server.break_worker(BackgroundWorker::Settlement, 1, |server| {
        assert_eq!(server.call("POST", &settle, r#"{"amount":812}"#).status(), 503);
    });
    assert_eq!(server.call("POST", &settle, r#"{"amount":812}"#).status(), 200);
    let left =
        server.call("POST", "/v1/peek", r#"{"key":"ann","limit":"5000/d fixed first_hit"}"#).text();
    assert!(left.contains("4188"), "{left}");
    server.stop();
}
