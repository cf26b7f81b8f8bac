//! HTTP/2 as it is not meant: streams that are reset at once, heads without an end, frames without
//! use.

use std::io::Write;
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream, until};

use super::Honest;
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GO_AWAY, HEADERS, PING, RESET, SETTINGS, Wire,
    fields, frame,
};
use crate::support::{OPEN, start, start_with};

const SHORT: Duration = Duration::from_millis(200);

const HEAD: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "stub"), (":path", "/flood")];

#[test]
fn rapid_resets_end_the_connection_before_most_are_decided() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut wire = Wire::connect(gateway.address());
    let mut flood = Vec::new();
    for n in 0..20_000 {
        let stream = 2 * n + 1;
        flood.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields(&HEAD)));
        flood.extend(frame(RESET, 0, stream, &8_u32.to_be_bytes()));
    }
    wire.write(&flood);
    let mut was_told = false;
    while let Some((kind, ..)) = wire.read() {
        was_told |= kind == GO_AWAY;
    }
    let mut honest = Honest::of(&gateway);
    (0..100).for_each(|_| honest.ask());
    let (p50, p99) = honest.figures();
    let flooded = gateway.decisions() - 100;
    println!(
        "20000 resets: {flooded} decided, {} sent on; honest p50 {p50:.2} ms, p99 {p99:.2} ms",
        upstream.count() - 100
    );
    assert!(was_told, "the connection is ended");
    assert!(flooded < 2_000, "{flooded} were decided before it ended");
    assert!(upstream.count() <= gateway.decisions());
}

#[test]
fn heads_without_an_end_end_the_connection() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    let mut wire = Wire::connect(gateway.address());
    wire.write(&frame(HEADERS, 0, 1, &fields(&HEAD)));
    let value = "v".repeat(3900);
    let more = frame(CONTINUATION, 0, 1, &fields(&[("a", &value)]));
    let mut sent = 0;
    while sent < 64 << 20 && wire.write(&more) {
        sent += more.len();
    }
    assert!(sent < 16 << 20, "read on and on: {sent}");
    // Small ones too: empty frames cost their sender next to nothing.
    let mut wire = Wire::connect(gateway.address());
    wire.write(&frame(HEADERS, 0, 1, &fields(&HEAD)));
    let empty = frame(CONTINUATION, 0, 1, &[]).repeat(1000);
    let rounds = (0..10_000).take_while(|_| wire.write(&empty)).count();
    assert!(rounds < 10_000, "ten million empty frames");
    assert_eq!((gateway.decisions(), upstream.count()), (0, 0));
    Honest::of(&gateway).ask();
}

#[test]
fn frames_without_use_are_harmless() {
    let upstream = Upstream::start();
    let gateway = start(OPEN, &upstream);
    for useless in [
        frame(SETTINGS, 0, 0, &[]),
        frame(PING, 0, 0, &[0; 8]),
        frame(DATA, 0, 1, &[]),
        frame(RESET, 0, 1, &8_u32.to_be_bytes()),
    ] {
        let mut wire = Wire::connect(gateway.address());
        let flood = useless.repeat(1000);
        // Never reads what it is answered.
        (0..20).take_while(|_| wire.write(&flood)).count();
        let mut honest = Honest::of(&gateway);
        (0..20).for_each(|_| honest.ask());
    }
    assert_eq!(upstream.count(), gateway.decisions());
}

#[test]
fn who_never_opens_its_window_is_cut_off() {
    let upstream = Upstream::answering(|_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1 << 20);
        let wrote = stream.write_all(head.as_bytes());
        match wrote.and_then(|()| stream.write_all(&vec![b'x'; 1 << 20])) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    });
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.bounds.stall_timeout = SHORT;
        config.bounds.idle_timeout = 3 * SHORT;
        config.gateway.as_mut().unwrap().pause_timeout = 3 * SHORT;
    });
    let mut wire = Wire::connect(gateway.address());
    // A window of nothing: heads may come, bodies may not.
    wire.write(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for n in 0..100 {
        wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &fields(&HEAD)));
    }
    until("all are under way", || gateway.decisions() == 100);
    let waited = until("they do not stay for ever", || {
        // Keeps the connection itself alive.
        wire.write(&frame(PING, 0, 0, &[0; 8]));
        gateway.connections() == 0
    });
    println!("100 streams without a window: over after {} ms", waited.as_millis());
}
