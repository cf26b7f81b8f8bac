//! Clients that do not read what they asked for: they hold no permit for long.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollgate_rig::{AfterResponse, Upstream, until};

use crate::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RESET, SETTINGS, WINDOW_UPDATE, Wire, fields, frame,
};
use crate::support::{Gateway, start_with};

const RULES: &str = "rules: [{ name: all, limit: 10 concurrent }]";
const SHORT: Duration = Duration::from_millis(400);
const SIZE: usize = 16 << 20;

/// An upstream whose response fits into no buffer, except at `/small`.
fn upstream() -> Upstream {
    let body = vec![b'x'; SIZE];
    Upstream::answering(move |request, stream| {
        let body = if request.target() == "/small" { &b"fine"[..] } else { &body };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        match stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

fn head(path: &str) -> Vec<u8> {
    fields(&[(":method", "GET"), (":scheme", "http"), (":authority", "stub"), (":path", path)])
}

/// Asks until a permit is free; returns how long that took.
fn until_admitted(gateway: &Gateway) -> Duration {
    assert_eq!(gateway.connect().get("/small").status(), 429, "all permits are taken");
    until("a permit is free", || gateway.connect().get("/small").status() == 200)
}

#[test]
fn streams_without_a_window_are_reset_and_release_their_permits() {
    let upstream = upstream();
    let gateway = start_with(RULES, &[&upstream.url()], |config| {
        // Nothing but the stall timeout can end them within the test.
        config.bounds.idle_timeout = Duration::from_secs(300);
        config.bounds.stall_timeout = SHORT;
    });
    let mut wire = Wire::connect(gateway.address());
    wire.write(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for number in 0..10 {
        let head = head("/large");
        wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &head));
    }
    until("all permits are taken", || gateway.decisions() == 10);
    let took = until_admitted(&gateway);
    println!("ten streams without a window hold their permits for {} ms", took.as_millis());
    let mut resets = 0;
    while resets < 10 {
        let (kind, ..) = wire.read().expect("the connection goes on");
        resets += usize::from(kind == RESET);
    }
    // The connection itself is sound: once it opens a window, it is served.
    wire.write(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]));
    wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, 21, &head("/small")));
    loop {
        let (kind, stream, payload) = wire.read().expect("the connection goes on");
        if (kind, stream) == (DATA, 21) && !payload.is_empty() {
            assert_eq!(payload, b"fine");
            break;
        }
    }
}

#[test]
fn a_stream_that_is_read_slowly_goes_on() {
    let upstream = upstream();
    let gateway = start_with(RULES, &[&upstream.url()], |config| {
        config.bounds.stall_timeout = Duration::from_secs(10);
    });
    let mut wire = Wire::connect(gateway.address());
    wire.write(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    wire.write(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head("/large")));
    // A window of a few bytes at a time.
    let mut received = 0;
    while received < 200_000 {
        match wire.read().expect("the connection goes on") {
            (DATA, 1, data) => {
                received += data.len();
                for stream in [0, 1] {
                    wire.write(&frame(WINDOW_UPDATE, 0, stream, &5_000_u32.to_be_bytes()));
                }
            }
            (kind, ..) => assert_ne!(kind, RESET),
        }
    }
}

#[test]
fn connections_that_do_not_read_are_closed_and_release_their_permits() {
    let upstream = upstream();
    let gateway = start_with(RULES, &[&upstream.url()], |config| {
        config.bounds.idle_timeout = Duration::from_secs(300);
        config.bounds.write_timeout = SHORT;
    });
    let mut silent: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.address()).unwrap();
            stream.set_read_timeout(Some(crate::DEADLINE)).unwrap();
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: stub\r\n\r\n").unwrap();
            stream
        })
        .collect();
    until("all permits are taken", || gateway.decisions() == 10);
    let took = until_admitted(&gateway);
    println!("ten connections that do not read hold their permits for {} ms", took.as_millis());
    until("all are closed", || gateway.connections() == 0);
    let mut received = Vec::new();
    let _ = silent[0].read_to_end(&mut received);
    assert!(received.len() < SIZE, "the response was cut off");
}
