//! Requests that are sent again when their connection breaks before the response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_rig::{AfterResponse, Upstream};

use crate::support::{OPEN, start_with};

/// An upstream that closes every connection without a response.
fn resetting() -> Upstream {
    Upstream::answering(|_, _| AfterResponse::Close)
}

#[test]
fn a_get_whose_connection_breaks_is_sent_to_another_upstream() {
    let (broken, fine) = (resetting(), Upstream::start());
    let gateway = start_with(OPEN, &[&broken.url(), &fine.url()], |_| {});
    for method in ["GET", "HEAD", "OPTIONS"] {
        for number in 0..20 {
            let mut client = gateway.connect();
            client.write(format!("{method} /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(client.read_answer_to(method).unwrap().status(), 200, "{method} {number}");
        }
    }
    assert!(broken.count() > 0, "the broken one was tried");
    assert_eq!(fine.count(), 60);
}

#[test]
fn what_may_change_something_is_never_sent_twice() {
    let (one, other) = (resetting(), resetting());
    let gateway = start_with(OPEN, &[&one.url(), &other.url()], |_| {});
    let sent = || one.count() + other.count();
    for (method, body) in
        [("POST", "x"), ("POST", ""), ("PUT", ""), ("DELETE", ""), ("PATCH", "x"), ("GET", "body")]
    {
        let before = sent();
        assert_eq!(gateway.connect().send(method, "/", &[], body).status(), 502, "{method}");
        assert_eq!(sent() - before, 1, "{method} {body:?}");
    }
}

#[test]
fn a_request_is_sent_at_most_twice() {
    let all = [resetting(), resetting(), resetting()];
    let urls: Vec<String> = all.iter().map(Upstream::url).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let gateway = start_with(OPEN, &urls, |_| {});
    assert_eq!(gateway.connect().get("/").status(), 502);
    assert_eq!(all.iter().map(Upstream::count).sum::<usize>(), 2);
    let alone = start_with(OPEN, &urls[..1], |_| {});
    let before = all[0].count();
    assert_eq!(alone.connect().get("/").status(), 502);
    assert_eq!(all[0].count() - before, 1, "a new connection to the only upstream is no accident");
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_no_request() {
    // The second request of each connection is not answered, as if the upstream had closed it.
    let answered = Arc::new(AtomicUsize::new(0));
    let count = answered.clone();
    let upstream = Upstream::answering(move |request, stream| {
        use std::io::Write;
        if request.target() == "/second" && count.fetch_add(1, Ordering::SeqCst) == 0 {
            return AfterResponse::Close;
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        AfterResponse::Keep
    });
    let gateway = start_with(OPEN, &[&upstream.url()], |_| {});
    let mut client = gateway.connect();
    assert_eq!(client.get("/first").status(), 200);
    assert_eq!(client.get("/second").status(), 200);
    assert_eq!((upstream.connections(), answered.load(Ordering::SeqCst)), (2, 2));
}
