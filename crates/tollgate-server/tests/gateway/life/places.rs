//! `N concurrent`: a place is held until a request is over, however it ends.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use tollgate_rig::{AfterResponse, Upstream, WebClient, until};

use crate::support::{Gateway, start, start_with};

const ONE: &str = "rules: [{ name: r, limit: 1 concurrent lease 1h }]";

/// An upstream that sends half of its answer, and waits to be told how to go on.
fn halting() -> (Upstream, Sender<AfterResponse>) {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let upstream = Upstream::answering(move |request, stream| {
        if request.target() != "/halt" {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            return AfterResponse::Keep;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf ");
        let next = told.lock().unwrap().recv().unwrap_or(AfterResponse::Close);
        if next == AfterResponse::Keep {
            let _ = stream.write_all(b"there");
        }
        next
    });
    (upstream, tell)
}

/// A request that is under way: its head has come back.
fn under_way(gateway: &Gateway) -> WebClient {
    let mut client = gateway.connect();
    client.write("GET /halt HTTP/1.1\r\nHost: stub\r\n\r\n");
    assert_eq!(client.read_head().unwrap().status(), 200);
    assert_eq!(client.read_bytes(5).unwrap(), b"half ");
    client
}

fn is_free(gateway: &Gateway) -> bool {
    match gateway.connect().get("/").status() {
        200 => true,
        429 => false,
        other => panic!("{other}"),
    }
}

#[test]
fn a_permit_is_free_at_the_end_of_the_body() {
    let (upstream, tell) = halting();
    let gateway = start(ONE, &upstream);
    let mut client = under_way(&gateway);
    assert!(!is_free(&gateway));
    tell.send(AfterResponse::Keep).unwrap();
    assert_eq!(client.read_bytes(5).unwrap(), b"there");
    until("the place is free", || is_free(&gateway));
}

#[test]
fn a_permit_is_free_when_the_client_leaves() {
    let (upstream, _tell) = halting();
    let gateway = start(ONE, &upstream);
    let client = under_way(&gateway);
    assert!(!is_free(&gateway));
    drop(client);
    until("the place is free", || is_free(&gateway));
}

#[test]
fn a_permit_is_free_when_the_upstream_dies() {
    let (upstream, tell) = halting();
    let gateway = start(ONE, &upstream);
    let mut client = under_way(&gateway);
    assert!(!is_free(&gateway));
    tell.send(AfterResponse::Close).unwrap();
    assert!(client.read_bytes(5).is_err(), "half an answer is none");
    until("the place is free", || is_free(&gateway));
}

#[test]
fn a_permit_is_free_when_the_client_leaves_before_a_response() {
    let upstream = Upstream::answering(|request, stream| {
        if request.target() == "/never" {
            let _ = stream.read(&mut [0]);
            return AfterResponse::Close;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        AfterResponse::Keep
    });
    let gateway = start(ONE, &upstream);
    let mut client = gateway.connect();
    client.write("GET /never HTTP/1.1\r\nHost: stub\r\n\r\n");
    until("it is under way", || upstream.count() == 1);
    assert!(!is_free(&gateway));
    drop(client);
    until("the place is free", || is_free(&gateway));
}

#[test]
fn a_permit_is_free_when_no_upstream_is_reachable() {
    let unreachable = Upstream::start().url();
    let gateway = start_with(ONE, &[&unreachable], |_| {});
    for _ in 0..5 {
        let status = gateway.connect().get("/").status();
        assert!(matches!(status, 502 | 503), "{status}");
    }
}

#[test]
fn a_tunnel_holds_its_place_until_it_ends() {
    let upstream = Upstream::answering(|request, stream| {
        if request.header("upgrade").is_none() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            return AfterResponse::Keep;
        }
        let head = "HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.read(&mut [0]);
        AfterResponse::Close
    });
    let gateway = start(ONE, &upstream);
    let mut client = gateway.connect();
    client.write(
        "GET /ws HTTP/1.1\r\nHost: stub\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    assert_eq!(client.read_head().unwrap().status(), 101);
    assert!(!is_free(&gateway));
    drop(client);
    until("the place is free", || is_free(&gateway));
}
