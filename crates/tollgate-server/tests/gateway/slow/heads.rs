//! Heads of HTTP/2 that do not end.

use std::time::Duration;

use tollgate::Clock;
use tollgate_rig::{Upstream, until};

use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, HEADERS, PING, SETTINGS, Wire, fields, frame,
};
use crate::support::{Gateway, OPEN, start_with};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(300);

fn gateway(upstream: &Upstream) -> Gateway {
    start_with(OPEN, &[&upstream.url()], |config| {
        config.bounds.header_timeout = SHORT;
        config.bounds.idle_timeout = LONG;
        config.gateway.as_mut().unwrap().upload_timeout = LONG;
    })
}

fn head(method: &str) -> Vec<u8> {
    fields(&[(":method", method), (":scheme", "http"), (":authority", "stub"), (":path", "/")])
}

#[test]
fn heads_that_do_not_end_have_a_deadline() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let clock = Clock::system();
    let open = frame(HEADERS, 0, 1, &head("GET"));
    let more = frame(CONTINUATION, 0, 1, &[]);
    for (what, first, again) in [
        ("a head without its end", open.clone(), Vec::new()),
        ("half a frame", open[..15].to_vec(), Vec::new()),
        ("half the head of a frame", open[..5].to_vec(), Vec::new()),
        ("half a ping", frame(PING, 0, 0, &[0; 8])[..12].to_vec(), Vec::new()),
        ("empty frames", open.clone(), more),
        ("half a frame byte by byte", frame(HEADERS, 0, 1, &[0; 16_000])[..9].to_vec(), vec![0]),
    ] {
        let mut wire = Wire::connect(gateway.address());
        let began = clock.now();
        wire.write(&first);
        if again.is_empty() {
            while wire.read().is_some() {}
        } else {
            until(what, || !wire.write(&again));
        }
        let took: Duration = clock.now().since(began).into();
        assert!(took >= SHORT && took < crate::DEADLINE, "{what}: closed after {took:?}");
        println!("{what}: closed after {} ms", took.as_millis());
    }
    assert_eq!(gateway.decisions(), 0);
}

#[test]
fn the_deadline_holds_while_other_streams_are_active() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let mut wire = Wire::connect(gateway.address());
    wire.write(&frame(HEADERS, END_HEADERS, 1, &head("POST")));
    wire.write(&frame(DATA, 0, 1, b"x"));
    until("the first request is under way", || gateway.decisions() == 1);
    wire.write(&frame(HEADERS, 0, 3, &head("GET")));
    until("the connection is closed", || gateway.connections() == 0);
}

#[test]
fn idle_connections_and_slow_bodies_are_not_mistaken_for_heads() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let mut wire = Wire::connect(gateway.address());
    wire.write(&frame(HEADERS, END_HEADERS, 1, &head("POST")));
    // The rest of this frame does not come for longer than a head may take.
    let half = frame(DATA, 0, 1, &[b'x'; 100]);
    wire.write(&half[..20]);
    let mut head_without_end = Wire::connect(gateway.address());
    head_without_end.write(&frame(SETTINGS, 0, 0, &[]));
    head_without_end.write(&frame(HEADERS, 0, 1, &head("GET")));
    while head_without_end.read().is_some() {}
    until("only the other connection is closed", || gateway.connections() == 1);
    wire.write(&half[20..]);
    wire.write(&frame(DATA, 1, 1, &[]));
    assert_eq!(wire.result(1), crate::frames::StreamResult::Fine);
}
