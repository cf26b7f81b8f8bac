//! `then: delay`: requests are held back, and who leaves meanwhile is never sent on.

use std::time::Duration;

use tollgate_rig::{Upstream, until};

use crate::support::start;

#[test]
fn a_client_sees_the_delay_and_nothing_else() {
    let upstream = Upstream::start();
    // One at once, the next a second after it, and no more than that.
    let rules = "rules: [{ name: r, limit: 10/10s leaky burst 2, then: delay up to 1s }]";
    let gateway = start(rules, &upstream);
    let mut clients: Vec<_> = (0..3).map(|_| gateway.connect()).collect();
    let mut waited = Duration::ZERO;
    for (n, client) in clients.iter_mut().enumerate() {
        client.write("GET / HTTP/1.1\r\nHost: stub\r\n\r\n");
        until("it is decided", || gateway.decided() > n);
    }
    assert_eq!(clients[0].read().unwrap().status(), 200);
    let refused = clients[2].read().unwrap();
    assert_eq!(refused.status(), 429, "{refused:?}");
    if upstream.count() < 2 {
        waited = until("the second is let go", || upstream.count() == 2);
    }
    assert_eq!(clients[1].read().unwrap().status(), 200);
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(upstream.count(), 2);
}

#[test]
fn who_leaves_while_waiting_is_never_sent_on() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: r, limit: 1/h leaky burst 50, then: delay up to 50h }]";
    let gateway = start(rules, &upstream);
    assert_eq!(gateway.connect().get("/first").status(), 200);
    let mut waiting: Vec<_> = (0..20).map(|_| gateway.connect()).collect();
    for (n, client) in waiting.iter_mut().enumerate() {
        match n % 2 {
            0 => client.write("GET /late HTTP/1.1\r\nHost: stub\r\n\r\n"),
            _ => {
                client.write("POST /late HTTP/1.1\r\nHost: stub\r\nContent-Length: 5\r\n\r\nhello")
            }
        }
    }
    until("all wait", || gateway.waiting() == 20);
    assert_eq!(gateway.connections(), 20);
    drop(waiting);
    until("nobody waits for who has left", || gateway.connections() == 0);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn who_leaves_a_stream_while_waiting_is_never_sent_on() {
    use crate::frames::{END_HEADERS, END_STREAM, HEADERS, RESET, Wire, fields, frame};
    let upstream = Upstream::start();
    let rules = "rules: [{ name: r, limit: 1/h leaky burst 50, then: delay up to 50h }]";
    let gateway = start(rules, &upstream);
    assert_eq!(gateway.connect().get("/first").status(), 200);
    let mut wire = Wire::connect(gateway.address());
    let head =
        [(":method", "GET"), (":scheme", "http"), (":authority", "stub"), (":path", "/late")];
    for n in 0..10 {
        let flags = END_HEADERS | END_STREAM;
        wire.write(&frame(HEADERS, flags, 2 * n + 1, &fields(&head)));
    }
    until("all wait", || gateway.waiting() == 10);
    for n in 0..10 {
        wire.write(&frame(RESET, 0, 2 * n + 1, &8_u32.to_be_bytes()));
    }
    drop(wire);
    until("nobody waits for who has left", || gateway.connections() == 0);
    assert_eq!(upstream.count(), 1);
}
