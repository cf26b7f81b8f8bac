//! The live tail of decisions.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use super::API;
use super::client::AdminClient;
use crate::support::{DEADLINE, TestServer, start};

/// A subscriber that reads events line by line.
struct EventReader(BufReader<TcpStream>);

impl EventReader {
    fn follow(server: &TestServer, query: &str) -> EventReader {
        // With a small buffer, a subscriber that does not read falls behind soon.
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
        let mut reader = EventReader(BufReader::new(stream));
        assert!(reader.line().starts_with("HTTP/1.1 200"), "a stream");
        while !reader.line().is_empty() {}
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the name and the data of the next event; skips chunk sizes and empty lines.
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
fn subscribers_receive_the_decisions_that_match_their_filter() {
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    let mut all = EventReader::follow(&server, "follow");
    let mut denied =
        EventReader::follow(&server, "follow=true&outcome=denied&domain=shop&rule=api");
    let mut none = EventReader::follow(&server, "follow&domain=other");
    let mut few = EventReader::follow(&server, "follow&sample=0");
    for _ in 0..3 {
        admin.passes("ann");
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

    let recent = admin.get("/v1/decisions?limit=2").json();
    assert_eq!(recent["decisions"].as_array().unwrap().len(), 2);
    let recent = admin.get("/v1/decisions?outcome=denied").json();
    assert_eq!(recent["decisions"][0]["key"], "ann");
    for wrong in ["sample=2", "sample=x", "outcome=maybe", "follow=yes", "folow"] {
        assert_eq!(admin.get(&format!("/v1/decisions?{wrong}")).status, 400, "{wrong}");
    }
    // Streams end with the server, and these two filters matched nothing.
    server.stop();
    for reader in [&mut none, &mut few] {
        let rest = EventReader(BufReader::new(reader.0.get_ref().try_clone().unwrap())).rest();
        assert!(!rest.contains("data:"), "{rest}");
    }
}

/// Requests `times` decisions on one connection, without waiting for each response.
fn check_many(server: &TestServer, user: &str, times: usize) {
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
    // A body does not end its line, so the next response follows on the same line.
    let responses = lines.filter(|line| line.contains("HTTP/1.1 200"));
    assert_eq!(responses.take(times).count(), times);
    writing.join().unwrap().unwrap();
}

#[test]
fn a_slow_subscriber_delays_no_request_and_gets_the_number_of_dropped_events() {
    // Long names, and a key that JSON escapes make longer, fill the buffers with few events.
    let (name, key) = ("n".repeat(64), "\"".repeat(256));
    let server = start(&format!(
        "domain: {name}\nattributes: [user]\nrules: [{{ name: {name}, per: user, limit: 2/h }}]\n"
    ));
    let mut slow = EventReader::follow(&server, "follow");
    let sent = 7000;
    // Without a reader the buffers of the connection fill first, then that of the subscription;
    // then events are dropped.
    check_many(&server, &key, sent);
    let (mut received, mut dropped) = (0, 0);
    while received + dropped < sent as u64 {
        match slow.event() {
            (name, event) if name == "dropped" => dropped += event["dropped"].as_u64().unwrap(),
            _ => received += 1,
        }
    }
    assert_eq!(received + dropped, sent as u64);
    assert!(dropped > 0, "nothing was dropped: {received}");
    server.stop();
}

#[test]
fn the_number_of_subscribers_is_bounded() {
    let server = start(API);
    let followers: Vec<EventReader> =
        (0..16).map(|_| EventReader::follow(&server, "follow")).collect();
    let refused = AdminClient::with_all_rights(&server).get("/v1/decisions?follow");
    assert_eq!(refused.status, 429, "{}", refused.text);
    drop(followers);
    server.stop();
}

#[test]
fn hostile_keys_are_escaped_in_every_output() {
    let rules = "domain: shop\nattributes: [user]\nrules: [{ name: api, per: user, limit: 1/h }]\n";
    let server = start(rules);
    let admin = AdminClient::with_all_rights(&server);
    let mut reader = EventReader::follow(&server, "follow");
    let hostile = "\u{1b}[2J\r\n\r\nevent: forged\ndata: <script>alert(1)</script>\u{9b}";
    admin.passes(hostile);
    admin.passes(hostile);
    let shown = "%1B[2J%0D%0A%0D%0Aevent: forged%0Adata: <script>alert(1)</script>%C2%9B";
    for _ in 0..2 {
        let (name, event) = reader.event();
        assert_eq!((name.as_str(), &event["key"]), ("", &json!(shown)));
    }
    let top = admin.get("/v1/top");
    assert_eq!(top.json()["keys"][0]["key"], shown);
    assert!(!top.text.contains(['\u{1b}', '\u{9b}']));
    assert!(!admin.get("/metrics").text.contains("script"));
    // The escaped form identifies the key in calls.
    let named = json!({ "rule": "api", "key": shown });
    assert_eq!(admin.post("/v1/keys/reset", &named).json()["limits"][0]["remaining"], 1);
    assert!(admin.passes(hostile));
    server.stop();
}
