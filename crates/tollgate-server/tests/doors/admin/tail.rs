//! Decisions as they are made.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::API;
use super::client::Operator;
use crate::support::{DEADLINE, Running, start};

/// Who reads events, line by line.
struct Reader(BufReader<TcpStream>);

impl Reader {
    fn follow(server: &Running, query: &str) -> Reader {
        // A small buffer, so that who does not read is noticed soon.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&server.http().into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let token = server.admin_token();
        write!(
            stream,
            "GET /v1/decisions?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        let mut reader = Reader(BufReader::new(stream));
        assert!(reader.line().starts_with("HTTP/1.1 200"), "a stream");
        while !reader.line().is_empty() {}
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next event: its name and its data. Sizes of chunks and empty lines are passed over.
    fn event(&mut self) -> (String, Value) {
        let mut name = String::new();
        loop {
            let line = self.line();
            if let Some(text) = line.strip_prefix("event: ") {
                name = text.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (name, serde_json::from_str(data).unwrap());
            }
        }
    }

    fn rest(mut self) -> String {
        let mut rest = String::new();
        while self.0.read_line(&mut rest).unwrap() > 0 {}
        rest
    }
}

#[test]
fn who_follows_sees_what_was_asked_for() {
    let server = start(API);
    let operator = Operator::of(&server);
    let mut all = Reader::follow(&server, "follow");
    let mut denied = Reader::follow(&server, "follow=true&outcome=denied&domain=shop&rule=api");
    let mut none = Reader::follow(&server, "follow&domain=other");
    let mut few = Reader::follow(&server, "follow&sample=0");
    for _ in 0..3 {
        operator.passes("ann");
    }
    for allowed in [true, true, false] {
        let (name, event) = all.event();
        assert_eq!((name.as_str(), &event["allowed"]), ("", &json!(allowed)));
        assert_eq!((&event["domain"], &event["rule"]), (&json!("shop"), &json!("api")));
        assert_eq!((&event["key"], &event["door"]), (&json!("ann"), &json!("http")));
    }
    let (_, event) = denied.event();
    assert_eq!((&event["reason"], &event["outcome"]), (&json!("over_limit"), &json!("denied")));
    assert!(event["retry_after_ms"].as_u64().unwrap() > 0);

    let recent = operator.get("/v1/decisions?limit=2").json();
    assert_eq!(recent["decisions"].as_array().unwrap().len(), 2);
    let recent = operator.get("/v1/decisions?outcome=denied").json();
    assert_eq!(recent["decisions"][0]["key"], "ann");
    for wrong in ["sample=2", "sample=x", "outcome=maybe", "follow=yes", "folow"] {
        assert_eq!(operator.get(&format!("/v1/decisions?{wrong}")).status, 400, "{wrong}");
    }
    // Streams end with the server, and nothing was shown that was not wanted.
    server.stop();
    for reader in [&mut none, &mut few] {
        let rest = Reader(BufReader::new(reader.0.get_ref().try_clone().unwrap())).rest();
        assert!(!rest.contains("data:"), "{rest}");
    }
}

/// Asks for so many decisions on one connection, without waiting for each answer.
fn check_many(server: &Running, user: &str, times: usize) {
    let body = json!({ "attributes": { "user": user } }).to_string();
    let length = body.len();
    let one = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    let stream = TcpStream::connect(server.http()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(one.repeat(times).as_bytes()));
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    // A body does not end its line: the next answer follows right after it.
    let answers = lines.filter(|line| line.contains("HTTP/1.1 200"));
    assert_eq!(answers.take(times).count(), times);
    writing.join().unwrap().unwrap();
}

#[test]
fn a_slow_reader_is_told_what_it_missed_and_holds_nobody_up() {
    // Long names and a key that grows when it is written as JSON: few events fill the buffers.
    let (name, key) = ("n".repeat(64), "\"".repeat(256));
    let server =
        start(&format!("domain: {name}\nrules: [{{ name: {name}, per: user, limit: 2/h }}]\n"));
    let mut slow = Reader::follow(&server, "follow");
    let sent = 7000;
    // Nobody reads: first the buffers of the connection fill, then the watcher's, then events are
    // dropped.
    check_many(&server, &key, sent);
    let (mut seen, mut dropped) = (0, 0);
    while seen + dropped < sent as u64 {
        match slow.event() {
            (name, event) if name == "dropped" => dropped += event["dropped"].as_u64().unwrap(),
            _ => seen += 1,
        }
    }
    assert_eq!(seen + dropped, sent as u64);
    assert!(dropped > 0, "everything fitted: {seen}");
    server.stop();
}

#[test]
fn only_so_many_may_follow() {
    let server = start(API);
    let followers: Vec<Reader> = (0..16).map(|_| Reader::follow(&server, "follow")).collect();
    let refused = Operator::of(&server).get("/v1/decisions?follow");
    assert_eq!(refused.status, 429, "{}", refused.text);
    drop(followers);
    server.stop();
}

#[test]
fn hostile_keys_do_nothing_where_they_are_shown() {
    let rules = "domain: shop\nrules: [{ name: api, per: user, limit: 1/h }]\n";
    let server = start(rules);
    let operator = Operator::of(&server);
    let mut reader = Reader::follow(&server, "follow");
    let hostile = "\u{1b}[2J\r\n\r\nevent: forged\ndata: <script>alert(1)</script>\u{9b}";
    operator.passes(hostile);
    operator.passes(hostile);
    let shown = "%1B[2J%0D%0A%0D%0Aevent: forged%0Adata: <script>alert(1)</script>%C2%9B";
    for _ in 0..2 {
        let (name, event) = reader.event();
        assert_eq!((name.as_str(), &event["key"]), ("", &json!(shown)));
    }
    let top = operator.get("/v1/top");
    assert_eq!(top.json()["keys"][0]["key"], shown);
    assert!(!top.text.contains(['\u{1b}', '\u{9b}']));
    assert!(!operator.get("/metrics").text.contains("script"));
    // What is shown names the key.
    let named = json!({ "rule": "api", "key": shown });
    assert_eq!(operator.post("/v1/keys/reset", &named).json()["limits"][0]["remaining"], 1);
    assert!(operator.passes(hostile));
    server.stop();
}
