//! Interim responses: `103 Early Hints` and `100 Continue`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::Duration;

use tollgate_rig::{AfterResponse, Message, Upstream};

use crate::DEADLINE;
use crate::support::{OPEN, start, start_with};

const HINTS: &str =
    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nKeep-Alive: 1\r\n\r\n";
const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";

fn hinting(request: &Message, stream: &mut TcpStream) -> AfterResponse {
    let hints = match request.target() {
        "/many" => HINTS.repeat(3),
        "/flood" => HINTS.repeat(5_000),
        _ => HINTS.to_owned(),
    };
    let _ = stream.write_all(hints.as_bytes());
    match request.target() {
        "/broken" => AfterResponse::Close,
        _ => {
            let _ = stream.write_all(FINE.as_bytes());
            AfterResponse::Keep
        }
    }
}

#[test]
fn early_hints_reach_clients_before_the_response() {
    let upstream = Upstream::answering(hinting);
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    for (target, count) in [("/one", 1), ("/many", 3), ("/one", 1)] {
        client.write(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        for _ in 0..count {
            let hints = client.read().unwrap();
            assert_eq!(hints.line, "HTTP/1.1 103 Early Hints");
            assert_eq!(hints.headers, [("link".into(), "</a.css>; rel=preload".into())]);
        }
        let answer = client.read().unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, "fine"));
    }
    // Requests in a row are answered in a row.
    client.write("GET /one HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
    let statuses: Vec<u16> = (0..6).map(|_| client.read().unwrap().status()).collect();
    assert_eq!(statuses, [103, 200, 103, 200, 103, 200]);
}

#[test]
fn interim_responses_are_bounded_and_end_with_the_response() {
    let upstream = Upstream::answering(hinting);
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    client.write("GET /flood HTTP/1.1\r\nHost: a\r\n\r\nGET /one HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut hints = 0;
    while client.read_head().unwrap().status() == 103 {
        hints += 1;
        assert!(hints < 1_000, "5,000 were sent");
    }
    assert_eq!(client.read_bytes(4).unwrap(), b"fine");
    let statuses = [client.read().unwrap().status(), client.read().unwrap().status()];
    assert_eq!(statuses, [103, 200]);
    client.write("GET /broken HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut statuses = Vec::new();
    while statuses.last().is_none_or(|status| *status == 103) {
        statuses.push(client.read().unwrap().status());
    }
    assert_eq!(statuses.last(), Some(&502), "the gateway's own response comes after them");
    assert_eq!(client.get("/none").status(), 103);
}

#[test]
fn clients_of_http_1_0_get_no_interim_responses() {
    let upstream = Upstream::answering(hinting);
    let gateway = start(OPEN, &upstream);
    let mut client = gateway.connect();
    client.write("GET /one HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(client.read().unwrap().status(), 200);
}

/// Starts an upstream that gives the head of a request to the test, which tells it what to send before
/// the body.
fn expecting() -> (Upstream, mpsc::Receiver<Message>, mpsc::Sender<&'static str>) {
    let (heads, seen) = mpsc::channel();
    let (answers, sent) = mpsc::channel::<&'static str>();
    let sent = std::sync::Mutex::new(sent);
    let upstream = Upstream::answering(move |request, stream| {
        heads.send(request.clone()).unwrap();
        let first = sent.lock().unwrap().recv_timeout(DEADLINE).unwrap();
        let _ = stream.write_all(first.as_bytes());
        if !first.is_empty() && !first.contains(" 100 ") {
            return AfterResponse::Close;
        }
        let mut body = [0; 5];
        let _ = stream.set_read_timeout(Some(DEADLINE));
        let is_whole = stream.read_exact(&mut body).is_ok() && &body == b"hello";
        let _ = stream.write_all(if is_whole { FINE.as_bytes() } else { b"" });
        AfterResponse::Close
    });
    (upstream, seen, answers)
}

const EXPECTING: &str =
    "POST /up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";

#[test]
fn an_upstream_asks_for_the_body_before_the_client_is_asked() {
    let (upstream, seen, answers) = expecting();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        // Only the upstream opens the gate in this test.
        config.gateway.as_mut().unwrap().continue_timeout = 2 * DEADLINE;
    });
    let mut client = gateway.connect();
    client.write(EXPECTING);
    let head = seen.recv_timeout(DEADLINE).unwrap();
    assert_eq!(head.header("expect"), Some("100-continue"));
    answers.send("HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert_eq!(client.read().unwrap().line, "HTTP/1.1 100 Continue");
    client.write("hello");
    let answer = client.read().unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "fine"));
}

#[test]
fn a_request_that_is_refused_by_its_head_needs_no_body() {
    let (upstream, seen, answers) = expecting();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().continue_timeout = 2 * DEADLINE;
    });
    let mut client = gateway.connect();
    client.write(EXPECTING);
    seen.recv_timeout(DEADLINE).unwrap();
    answers.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(client.read().unwrap().status(), 413, "without 100 Continue before it");
    assert!(!upstream.raw().concat().contains("hello"));
}

#[test]
fn an_upstream_that_does_not_know_the_expectation_gets_the_body() {
    let (upstream, seen, answers) = expecting();
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().continue_timeout = Duration::from_millis(50);
    });
    let mut client = gateway.connect();
    client.write(EXPECTING);
    seen.recv_timeout(DEADLINE).unwrap();
    answers.send("").unwrap();
    assert_eq!(client.read().unwrap().status(), 100);
    client.write("hello");
    assert_eq!(client.read().unwrap().status(), 200);
}

#[test]
fn a_client_that_does_not_wait_for_100_continue_is_served_as_well() {
    let (upstream, seen, answers) = expecting();
    let gateway = start_with(OPEN, &[&upstream.url()], |_| {});
    let mut client = gateway.connect();
    client.write(format!("{EXPECTING}hello"));
    seen.recv_timeout(DEADLINE).unwrap();
    answers.send("HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    let first = client.read().unwrap().status();
    let last = if first == 100 { client.read().unwrap().status() } else { first };
    assert_eq!(last, 200);
    drop(upstream);
}
