//! A place among those in flight is a request's own for as long as it is under way.

use std::io::Write;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_rig::{AfterResponse, Upstream, until};

use crate::support::start;

/// How long a lease is, and how much longer the answer takes.
const LEASE: Duration = Duration::from_secs(3);
const LONGER: Duration = Duration::from_millis(3_500);

#[test]
fn a_long_answer_keeps_its_place() {
    let (go, going) = mpsc::channel::<()>();
    let going = Mutex::new(going);
    let upstream = Upstream::answering(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlo");
        let _ = going.lock().unwrap().recv();
        let _ = stream.write_all(b"ng");
        AfterResponse::Keep
    });
    let rules = format!("rules: [{{ name: r, limit: 1 concurrent lease {}s }}]", LEASE.as_secs());
    let gateway = start(&rules, &upstream);
    let mut client = gateway.connect();
    client.write("GET / HTTP/1.1\r\nHost: stub\r\n\r\n");
    until("it is under way", || upstream.count() == 1);
    let began = Instant::now();
    until("its first lease is over", || began.elapsed() > LONGER);
    assert_eq!(gateway.connect().get("/").status(), 429, "it is renewed");
    go.send(()).unwrap();
    assert_eq!(client.read().unwrap().text(), "long");
    drop(go);
    until("its place is free", || gateway.connect().get("/").status() == 200);
}
