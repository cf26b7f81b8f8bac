//! Connections that go on in another protocol.

use std::io::{Read, Write};
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream, until};

use crate::support::{OPEN, start, start_with};

const ASKS: &str =
    "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Agrees to everything, and says everything again.
fn echo() -> Upstream {
    Upstream::answering(|request, stream| {
        let Some(protocol) = request.header("upgrade") else {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            return AfterResponse::Keep;
        };
        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: ";
        let _ = stream.write_all(format!("{head}{protocol}\r\n\r\nhello").as_bytes());
        let mut bytes = [0; 64];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            let _ = stream.write_all(&bytes[..length]);
        }
        AfterResponse::Close
    })
}

#[test]
fn bytes_pass_once_the_upstream_agrees_and_a_place_is_held_until_the_end() {
    let upstream = echo();
    let gateway = start("rules: [{ name: few, limit: 1 concurrent }]", &upstream);
    let mut client = gateway.connect();
    client.write(ASKS);
    let head = client.read_head().unwrap();
    assert_eq!((head.status(), head.header("upgrade")), (101, Some("websocket")), "{head:?}");
    assert_eq!(client.read_bytes(5).unwrap(), b"hello");
    client.write("\x00\r\n\nping");
    assert_eq!(client.read_bytes(8).unwrap(), b"\x00\r\n\nping");
    assert_eq!(gateway.connect().get("/").status(), 429, "the place is taken");
    drop(client);
    until("the place is free", || gateway.connect().get("/").status() == 200);
}

#[test]
fn no_tunnel_is_a_way_around_the_limiter() {
    let upstream = echo();
    let gateway = start(OPEN, &upstream);
    for asks in ["h2c", "HTTP/2.0", "TLS/1.3", "websocket, h2c"] {
        let mut client = gateway.connect();
        let headers = [("Connection", "upgrade, http2-settings"), ("Upgrade", asks)];
        assert_eq!(client.get_with("/", &headers).status(), 200, "{asks}");
        assert_eq!(upstream.last().header("upgrade"), None, "{asks}");
    }
    // An upstream that agrees to something else is not believed.
    let wrong = Upstream::answering(|_, stream| {
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        AfterResponse::Keep
    });
    let gateway = start(OPEN, &wrong);
    let mut client = gateway.connect();
    client.write(ASKS);
    assert_eq!(client.read().unwrap().status(), 502);
    assert_eq!(gateway.connect().get("/").status(), 502);
}

#[test]
fn silent_tunnels_end() {
    let upstream = echo();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().tunnel_timeout = Duration::from_millis(200);
    });
    let mut client = gateway.connect();
    client.write(ASKS);
    assert_eq!(client.read_head().unwrap().status(), 101);
    assert!(client.rest().is_some_and(|rest| rest == b"hello"));
}

#[test]
fn tunnels_end_with_the_patience_of_a_drain() {
    let upstream = echo();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.drain.patience = Duration::from_millis(200);
    });
    let mut client = gateway.connect();
    client.write(ASKS);
    assert_eq!(client.read_head().unwrap().status(), 101);
    assert_eq!(client.read_bytes(5).unwrap(), b"hello");
    gateway.stop().join().unwrap();
    assert!(client.rest().is_some_and(|rest| rest.is_empty()));
}
