//! Asking for another protocol: only the upstream's own 101 opens a way around decisions, and
//! nothing of what comes after the request is sent on before.

use std::io::{Read, Write};
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream};

use super::SMUGGLED;
use crate::support::{OPEN, start, start_with};

const WEBSOCKET: &str = "GET /first HTTP/1.1\r\nHost: stub\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGVzdA==\r\n\r\n";

fn asking_for(protocol: &str) -> String {
    WEBSOCKET.replace("websocket", protocol)
}

#[test]
fn a_refused_upgrade_leaves_requests_requests() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    for protocol in ["websocket", "foo", "WebSocket", "websocket, foo"] {
        let (decided, sent) = (gateway.decisions(), upstream.count());
        let mut client = gateway.connect();
        client.write(asking_for(protocol) + SMUGGLED);
        let statuses = [client.read().unwrap().status(), client.read().unwrap().status()];
        assert_eq!(statuses, [200, 200], "{protocol}");
        assert_eq!(gateway.decisions() - decided, 2, "{protocol}");
        assert_eq!(upstream.count() - sent, 2, "{protocol}");
    }
}

#[test]
fn what_follows_a_refused_upgrade_is_looked_at() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    for ambiguous in [
        "GET /smuggled HTTP/1.1\nHost: stub\n\n",
        "POST /smuggled HTTP/1.1\r\nHost: stub\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        let mut client = gateway.connect();
        client.write(WEBSOCKET.to_owned() + ambiguous);
        let statuses = [client.read().unwrap().status(), client.read().unwrap().status()];
        assert_eq!(statuses, [200, 400], "{ambiguous:?}");
        assert_eq!(client.rest(), Some(vec![]));
    }
    assert_eq!((upstream.count(), gateway.decisions()), (2, 2));
}

#[test]
fn nothing_is_sent_on_before_the_upstream_agrees() {
    let upstream = Upstream::answering(|_, stream| {
        // Never answers; ends when the gateway does.
        let _ = stream.read(&mut [0; 1000]);
        AfterResponse::Close
    });
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        let options = config.gateway.as_mut().unwrap();
        options.answer_timeout = Duration::from_millis(300);
    });
    let mut client = gateway.connect();
    client.write(WEBSOCKET.to_owned() + SMUGGLED);
    assert_eq!(client.read().unwrap().status(), 504);
    let tape = upstream.raw().concat();
    let sent = tape.matches("HTTP/1.1\r\n").count();
    assert!(sent <= gateway.decisions(), "{tape:?}");
    assert!(tape.starts_with("GET /first"), "{tape:?}");
}

#[test]
fn protocols_that_hide_requests_are_never_asked_for() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    for protocol in ["h2c", "H2C", "HTTP/2.0", "h2", "TLS/1.0", "websocket, h2c", "h2c, websocket"]
    {
        let settings =
            "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA";
        let request = asking_for(protocol).replace("Connection: Upgrade", settings);
        let mut client = gateway.connect();
        client.write(request + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED);
        let first = client.read().unwrap().status();
        assert!(matches!(first, 200 | 400), "{protocol}: {first}");
        client.finish();
        while client.read().is_some() {}
        assert_eq!(upstream.count(), gateway.decisions(), "{protocol}");
        let tape = upstream.raw().concat().to_ascii_lowercase();
        assert!(!tape.contains("h2c") && !tape.contains("http2-settings"), "{tape:?}");
        assert!(!tape.contains("upgrade: tls") && !tape.contains("upgrade: h"), "{tape:?}");
        assert!(!tape.contains("pri *"), "{tape:?}");
    }
}

/// An upstream that switches to a protocol, whatever it was asked for, and then says what it hears.
fn switching(protocol: &'static str) -> Upstream {
    Upstream::answering(move |_, stream| {
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        let mut heard = [0; 1000];
        while let Ok(length @ 1..) = stream.read(&mut heard) {
            let _ = stream.write_all(&heard[..length].to_ascii_uppercase());
        }
        AfterResponse::Close
    })
}

#[test]
fn a_tunnel_opens_with_the_upstreams_word() {
    let upstream = switching("websocket");
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    client.write(WEBSOCKET);
    let head = client.read_head().unwrap();
    assert_eq!((head.status(), head.header("upgrade")), (101, Some("websocket")));
    client.write("hello");
    assert_eq!(client.read_bytes(5).unwrap(), b"HELLO");
    // What looks like a request is none any more.
    client.write(SMUGGLED);
    assert_eq!(
        client.read_bytes(SMUGGLED.len()).unwrap(),
        SMUGGLED.to_ascii_uppercase().as_bytes()
    );
    assert_eq!((gateway.decisions(), upstream.count()), (1, 1));
    client.finish();
    assert_eq!(client.rest(), Some(vec![]));
}

#[test]
fn a_protocol_that_was_not_requested_is_a_broken_response() {
    for (protocol, request) in [
        ("websocket", SMUGGLED.to_owned()),
        ("other", WEBSOCKET.to_owned()),
        ("h2c", WEBSOCKET.to_owned()),
    ] {
        let upstream = switching(protocol);
        let gateway = start(OPEN, &upstream);
        let mut client = gateway.connect();
        client.write(request + SMUGGLED);
        assert_eq!(client.read().unwrap().status(), 502, "{protocol}");
        assert!(upstream.count() <= gateway.decisions());
    }
}

#[test]
fn an_upgrade_with_a_body_is_no_tunnel_for_it() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let with = |field: &str| WEBSOCKET.replace("Host: stub", &format!("Host: stub\r\n{field}"));
    for (field, body) in
        [("Content-Length: 5", "hello"), ("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n")]
    {
        let mut client = gateway.connect();
        client.write(format!("{}{body}{SMUGGLED}", with(field)));
        client.finish();
        while client.read().is_some() {}
        assert!(upstream.count() <= gateway.decisions(), "{field}");
    }
    // Half a body, and what follows it is a body still.
    let mut client = gateway.connect();
    client.write(format!("{}{SMUGGLED}", with("Content-Length: 1000")));
    client.finish();
    while client.read().is_some() {}
    assert!(upstream.count() <= gateway.decisions());
    assert!(upstream.requests().iter().filter(|it| it.target() == "/smuggled").count() <= 2);
}
