//! `then: queue`: a line of bounded length in front of a service.

use std::sync::{Mutex, mpsc};

use tollgate_rig::{AfterResponse, Upstream, WebClient, until};

use crate::support::{Gateway, start};

/// Sends a request and does not wait for its answer.
fn ask(gateway: &Gateway, target: &str, key: &str) -> WebClient {
    let mut client = gateway.connect();
    client.write(format!("GET {target} HTTP/1.1\r\nHost: stub\r\nX-Key: {key}\r\n\r\n"));
    client
}

/// Sends a request and waits until it is queued.
fn stand(gateway: &Gateway, target: &str, key: &str) -> WebClient {
    let before = gateway.waiting();
    let client = ask(gateway, target, key);
    until("it stands in line", || gateway.waiting() == before + 1);
    client
}

#[test]
fn a_full_queue_refuses_at_once_and_who_leaves_makes_room() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: r, limit: 1/10min burst 1, then: queue 2 up to 10h }]";
    let gateway = start(rules, &upstream);
    assert_eq!(gateway.connect().get("/first").status(), 200);
    let mut waiting = vec![stand(&gateway, "/a", ""), stand(&gateway, "/b", "")];
    let refused = gateway.connect().get("/c");
    assert_eq!(refused.status(), 429);
    let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((300..=600).contains(&retry), "when the first of the line goes: {retry} s");
    drop(waiting.remove(0));
    until("its place is free", || gateway.waiting() == 1);
    waiting.push(stand(&gateway, "/d", ""));
    assert_eq!(gateway.connect().get("/e").status(), 429);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn the_newest_goes_first_where_a_rule_says_so() {
    let (go, going) = mpsc::channel::<()>();
    let going = Mutex::new(going);
    let upstream = Upstream::answering(move |_, stream| {
        let _ = going.lock().unwrap().recv();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let _ = std::io::Write::write_all(stream, answer);
        AfterResponse::Keep
    });
    let rules = "rules: [{ name: r, limit: 1 concurrent, then: queue 9 up to 1h lifo }]";
    let gateway = start(rules, &upstream);
    let mut clients = vec![ask(&gateway, "/first", "")];
    until("it is under way", || upstream.count() == 1);
    clients.extend(["/a", "/b", "/c"].map(|target| stand(&gateway, target, "")));
    for sent in 1..=4 {
        until("the next is under way", || upstream.count() == sent);
        go.send(()).unwrap();
    }
    clients.iter_mut().for_each(|client| assert_eq!(client.read().unwrap().status(), 200));
    let seen = upstream.requests();
    let order: Vec<&str> = seen.iter().map(|message| message.target()).collect();
    assert_eq!(order, ["/first", "/c", "/b", "/a"]);
    let counted = |outcome: &str| {
        let labels = format!("{{domain=\"default\",rule=\"r\",outcome=\"{outcome}\"}}");
        gateway.metric(&format!("tollgate_decisions_total{labels}"))
    };
    assert_eq!((counted("allowed"), counted("delayed")), (1, 3));
    assert_eq!(gateway.metric("tollgate_queue_wait_seconds_count"), 3);
}

#[test]
fn keys_share_the_places() {
    let upstream = Upstream::start();
    let rules = r#"
rules:
  - { name: r, per: 'header["x-key"]', limit: 1/h burst 1, then: queue 3 up to 10h }
"#;
    let gateway = start(rules, &upstream);
    for key in ["loud", "ann"] {
        assert_eq!(gateway.connect().get_with("/", &[("x-key", key)]).status(), 200);
    }
    let mut loud: Vec<_> = ["/1", "/2", "/3"].map(|target| stand(&gateway, target, "loud")).into();
    let _ann = ask(&gateway, "/4", "ann");
    assert_eq!(loud.pop().unwrap().read().unwrap().status(), 429, "the newest of the loud one");
    until("she stands in line", || gateway.waiting() == 3);
    assert_eq!(gateway.connect().get_with("/", &[("x-key", "loud")]).status(), 429);
    assert_eq!(gateway.connect().get_with("/", &[("x-key", "ann")]).status(), 429);
}

#[test]
fn going_down_answers_those_who_wait() {
    let upstream = Upstream::start();
    let rules = "rules: [{ name: r, limit: 2/s leaky burst 1, then: queue 9 up to 10s }]";
    let gateway = start(rules, &upstream);
    let mut clients: Vec<_> = (0..4).map(|_| ask(&gateway, "/", "")).collect();
    until("somebody waits", || gateway.waiting() > 0);
    gateway.stop().join().unwrap();
    clients.iter_mut().for_each(|client| assert_eq!(client.read().unwrap().status(), 200));
    assert_eq!(upstream.count(), 4);
}
