//! Signals: reload, and drain under load.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::process::{DEADLINE, Server, until};
use crate::support::folder;

/// A window that is longer than the test, so that each admission has its own remaining count.
const LIMIT: &str = "100000000/d fixed first_hit";
const TOTAL: u64 = 100_000_000;
/// The number of clients at each door.
const CLIENTS: usize = 4;

/// Sends one request on a persistent connection, and returns the head and the body of the response, or
/// none if the server closed the connection before.
fn call(stream: &mut TcpStream, path: &str, body: &Value) -> Option<(String, String)> {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).expect("no connection is reset");
        if length == 0 {
            assert!(answer.is_empty(), "an answer was cut off");
            return None;
        }
        answer.extend_from_slice(&piece[..length]);
        let text = String::from_utf8(answer.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).expect("a length");
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() == length {
            return Some((head, body.to_owned()));
        }
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Sends requests until the server closes, and returns the remaining count after each admission.
fn hammer_http(address: &str, requests: &AtomicUsize) -> Vec<u64> {
    let mut stream = connect(address);
    let mut left = Vec::new();
    let question = json!({ "key": "http", "limit": LIMIT });
    while let Some((head, body)) = call(&mut stream, "/v1/limit", &question) {
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["allowed"], true, "{body}");
        left.push(answer["limits"][0]["remaining"].as_u64().unwrap());
        requests.fetch_add(1, Ordering::Relaxed);
        if head.contains("connection: close") {
            return left;
        }
    }
    panic!("closed without a response");
}

/// Sends pipelines of the Redis protocol until the server closes the connection.
fn hammer_resp(address: &str, requests: &AtomicUsize) -> Vec<u64> {
    let mut stream = connect(address);
    let one = format!("*3\r\n$8\r\nTG.LIMIT\r\n$4\r\nresp\r\n${}\r\n{LIMIT}\r\n", LIMIT.len());
    let (batch, mut arrived, mut left) = (one.repeat(16), String::new(), Vec::new());
    loop {
        stream.write_all(batch.as_bytes()).expect("no connection is reset");
        let before = left.len();
        while left.len() < before + 16 {
            let mut piece = [0; 4096];
            let length = stream.read(&mut piece).expect("no connection is reset");
            if length == 0 {
                return left;
            }
            arrived += std::str::from_utf8(&piece[..length]).unwrap();
            while let Some((number, rest)) = remaining(&arrived) {
                left.push(number);
                requests.fetch_add(1, Ordering::Relaxed);
                arrived = rest.to_owned();
            }
        }
    }
}

/// Parses the first remaining count, and returns it with the rest of the text.
fn remaining(arrived: &str) -> Option<(u64, &str)> {
    let (number, rest) = arrived.split_once("remaining\r\n:")?.1.split_once("\r\n")?;
    Some((number.parse().unwrap(), rest))
}

/// Checks that the remaining counts have no gaps: every debit was reported to a client.
fn assert_no_debit_lost(left: Vec<u64>) {
    let count = left.len() as u64;
    let distinct: BTreeSet<u64> = left.into_iter().collect();
    assert_eq!(distinct.len() as u64, count, "one admission was reported twice");
    let expected: BTreeSet<u64> = (TOTAL - count..TOTAL).collect();
    assert_eq!(distinct, expected, "a debit was lost");
}

#[test]
fn the_server_drains_under_load() {
    let mut server = Server::start(&["--drain-notice", "1s"]);
    let (http, resp) = (server.at("http").to_owned(), server.at("resp").to_owned());
    let requests = AtomicUsize::new(0);
    let (http_left, resp_left) = thread::scope(|scope| {
        let hammer = |work: fn(&str, &AtomicUsize) -> Vec<u64>, address| -> Vec<_> {
            let requests = &requests;
            (0..CLIENTS).map(|_| scope.spawn(move || work(address, requests))).collect()
        };
        let (by_http, by_resp) = (hammer(hammer_http, &http), hammer(hammer_resp, &resp));
        until("load", || requests.load(Ordering::Relaxed) > 100);
        assert_eq!(server.status("/readyz"), 200);
        server.signal("-TERM");
        until("leaving", || server.status("/readyz") == 503);
        // The server is not ready, but still responds.
        let before = requests.load(Ordering::Relaxed);
        until("answers after that", || requests.load(Ordering::Relaxed) > before);
        let all = |running: Vec<thread::ScopedJoinHandle<'_, Vec<u64>>>| -> Vec<u64> {
            running.into_iter().flat_map(|client| client.join().unwrap()).collect()
        };
        (all(by_http), all(by_resp))
    });
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    assert_no_debit_lost(http_left);
    assert_no_debit_lost(resp_left);
    let log = server.log();
    assert!(log.contains("stopping: a signal arrived") && log.contains("stopped"), "{log}");
    assert!(!log.contains("cut off"), "{log}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let mut server = Server::start(&["--drain-notice", "1h"]);
    server.signal("-TERM");
    server.wait_for_log("stopping: a signal arrived");
    server.signal("-INT");
    assert_eq!(server.wait().code(), Some(0));
    assert!(server.log().contains("stopped at once: a second signal arrived"), "{}", server.log());
}

#[test]
fn a_hang_up_reloads_rules_and_the_log_level() {
    let rules = |limit: u32| format!("domain: shop\nrules: [{{ name: api, limit: {limit}/h }}]\n");
    let folder = folder(&[
        ("rules.yaml", &rules(7)),
        ("tollgate.toml", "rules = \"rules.yaml\"\nlog_level = \"info\"\n"),
    ]);
    let server = Server::start_in(folder, &["--grpc", "off", "--resp", "off"]);
    let limit = || {
        let (code, message) = server.run(&["peek", "shop", "--json"]);
        assert_eq!(code, 0, "{message}");
        let decision: Value = serde_json::from_str(&message).unwrap();
        decision["limits"][0]["limit"].as_u64().unwrap()
    };
    assert_eq!(limit(), 7);
    std::fs::write(server.path("rules.yaml"), rules(9)).unwrap();
    std::fs::write(server.path("tollgate.toml"), "rules = \"rules.yaml\"\nlog_level = \"debug\"\n")
        .unwrap();
    server.signal("-HUP");
    server.wait_for_log("the log level was changed");
    until("the new rules", || limit() == 9);

    std::fs::write(server.path("rules.yaml"), "rules: 1").unwrap();
    std::fs::write(server.path("tollgate.toml"), "nonsense = 1\n").unwrap();
    server.signal("-HUP");
    server.wait_for_log("the settings stay as they are: tollgate.toml:1: unknown key `nonsense`");
    assert_eq!(limit(), 9, "wrong rules change nothing");
}

#[test]
fn a_hang_up_reloads_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data-tokens");
    std::fs::write(&path, "app:first-0123456789").unwrap();
    let server = Server::start_in(folder, &["--data-tokens", path.to_str().unwrap()]);
    let check = |token: &str| {
        let check = ["check", "--key", "a", "--limit", "99/h", "--token", token];
        server.run(&check).0
    };
    assert_eq!((check("first-0123456789"), check("second-0123456789")), (0, 2));
    std::fs::write(&path, "app:second-0123456789").unwrap();
    server.signal("-HUP");
    server.wait_for_log("reloaded the tokens");
    until("the new token", || check("second-0123456789") == 0);
    assert_eq!(check("first-0123456789"), 2);
    std::fs::write(&path, "app:wrong").unwrap();
    server.signal("-HUP");
    server.wait_for_log("cannot reload the tokens");
    assert_eq!(check("second-0123456789"), 0, "the previous tokens stay valid");
}
