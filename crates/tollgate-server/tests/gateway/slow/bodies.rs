//! Bodies that are read for rules and do not come: they cost their own client, and no other.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_rig::{Upstream, WebClient, until};
use tollgate_server::Config;

use crate::frames::{DATA, END_HEADERS, HEADERS, StreamResult, Wire, fields, frame};
use crate::support::{Gateway, start_with};

/// A hundred tokens that come back at less than one a day, for everybody together.
const RULES: &str = "
rules:
  - { name: tokens, route: POST /chat, limit: 100 tokens/year, cost: { reserve: body.tokens, settle: response.body.used } }
";
/// The header of another client than those that connect directly.
const OTHER: (&str, &str) = ("x-forwarded-for", "198.51.100.7");
const CHUNKED: &str = "POST /chat HTTP/1.1\r\nhost: a.test\r\n\
                       content-type: application/json\r\ntransfer-encoding: chunked\r\n";
const LONG: Duration = Duration::from_secs(120);

/// A gateway that trusts the addresses that a proxy on this machine forwards.
fn gateway(rules: &str, upstream: &Upstream, set_up: impl FnOnce(&mut Config)) -> Gateway {
    start_with(rules, &[&upstream.url()], |config| {
        config.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
        let options = config.gateway.as_mut().unwrap();
        (options.upload_timeout, options.read_body_timeout) = (LONG, LONG);
        set_up(config);
    })
}

/// Sends the head of a chunked request, and the first chunk of its body.
fn begin(gateway: &Gateway, chunk: &str) -> WebClient {
    let mut client = gateway.connect();
    client.write(format!("{CHUNKED}\r\n{:x}\r\n{chunk}\r\n", chunk.len()));
    client
}

/// Sends a request of the other client, in pieces, and returns its status.
fn ask_as_other(gateway: &Gateway, tokens: u64) -> u16 {
    let mut client = gateway.connect();
    let body = json!({ "tokens": tokens, "text": "x".repeat(100_000) }).to_string();
    let (first, second) = body.split_at(50_000);
    client.write(format!("{CHUNKED}{}: {}\r\n\r\n", OTHER.0, OTHER.1));
    client.write(format!("{:x}\r\n{first}\r\n", first.len()));
    client.write(format!("{:x}\r\n{second}\r\n0\r\n\r\n", second.len()));
    client.read().expect("an answer").status()
}

/// Returns what is left of the hundred tokens.
fn left(gateway: &Gateway) -> u64 {
    let body = json!({ "attributes": { "route": "POST /chat" } }).to_string();
    let mut http = WebClient::connect(gateway.http());
    let answer = http.send("POST", "/v1/peek", &[("content-type", "application/json")], &body);
    let answer: Value = serde_json::from_str(&answer.text()).unwrap();
    answer["limits"][0]["remaining"].as_u64().unwrap()
}

fn buffered(gateway: &Gateway) -> usize {
    gateway.metric("tollgate_buffered_body_bytes")
}

#[test]
fn unfinished_bodies_of_one_client_do_not_affect_others() {
    let upstream = Upstream::start();
    let gateway = gateway(RULES, &upstream, |_| {});
    let _slow: Vec<_> = (0..200).map(|_| begin(&gateway, "{")).collect();
    until("all bodies are being read", || buffered(&gateway) >= 200);
    let used = buffered(&gateway);
    println!("200 bodies of one byte: {used} bytes are reserved");
    assert!(used <= 200 << 10, "memory is reserved as it arrives: {used}");
    assert_eq!(ask_as_other(&gateway, 3), 200);
    assert_eq!(left(&gateway), 97, "its own cost is charged, not the whole limit");
}

#[test]
fn heads_without_bodies_on_one_http2_connection_reserve_nothing() {
    let upstream = Upstream::start();
    let gateway = gateway(RULES, &upstream, |_| {});
    let mut wire = Wire::connect(gateway.address());
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a.test"),
        (":path", "/chat"),
        ("content-type", "application/json"),
    ]);
    for stream in 0..200 {
        wire.write(&frame(HEADERS, END_HEADERS, 2 * stream + 1, &head));
        wire.write(&frame(DATA, 0, 2 * stream + 1, &[b' '; 50]));
    }
    until("all bodies are being read", || buffered(&gateway) >= 200 * 50);
    assert!(buffered(&gateway) <= 200 << 10);
    assert_eq!(ask_as_other(&gateway, 3), 200);
    assert_eq!(left(&gateway), 97);
}

#[test]
fn a_client_that_exceeds_its_share_of_memory_is_refused_and_not_charged() {
    const BUDGET: usize = 16 << 20;
    let upstream = Upstream::start();
    let gateway = gateway(RULES, &upstream, |config| config.bounds.buffered_bodies = BUDGET);
    let part = format!("{{\"text\":\"{}", "x".repeat(1_000_000));
    let mut large: Vec<_> = (0..40).map(|_| begin(&gateway, &part)).collect();
    until("the rest is refused", || gateway.metric("tollgate_bodies_refused_total") >= 20);
    let used = buffered(&gateway);
    println!("40 bodies of 1 MB: {} KiB are reserved", used >> 10);
    assert!(used <= BUDGET / 2, "a client has at most as much as is free: {used}");
    // Which of them hold the memory is open.
    until("a refusal arrives", || large.iter().any(WebClient::has_received));
    let refused = large.iter_mut().find(|client| client.has_received()).unwrap().read().unwrap();
    assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("send fewer"), "{}", refused.text());
    assert_eq!(ask_as_other(&gateway, 3), 200);
    assert_eq!(left(&gateway), 97, "refused requests are not charged");
    drop(large);
    until("the memory comes back", || buffered(&gateway) == 0);
    assert_eq!(upstream.count(), 1);
}

#[test]
fn a_body_of_single_bytes_has_a_deadline_as_a_whole() {
    let upstream = Upstream::start();
    let gateway = gateway(RULES, &upstream, |config| {
        config.gateway.as_mut().unwrap().read_body_timeout = Duration::from_millis(500);
    });
    let mut client = begin(&gateway, "{");
    until("it is ended", || match client.try_write("1\r\n \r\n") {
        Ok(()) => {
            gateway.metric("tollgate_gateway_requests_total{from=\"gateway\",code=\"408\"}") == 1
        }
        Err(error) => matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
    });
    assert_eq!((upstream.count(), left(&gateway), buffered(&gateway)), (0, 100, 0));
}

#[test]
fn rules_that_need_no_body_are_evaluated_before_it_is_read() {
    let rules =
        format!("{RULES}\n  - {{ name: calls, route: POST /chat, per: ip, limit: 1/year }}");
    let upstream = Upstream::start();
    let gateway = gateway(&rules, &upstream, |_| {});
    let ask = |body: &str| {
        let headers = [("content-type", "application/json")];
        gateway.connect().send("POST", "/chat", &headers, body).status()
    };
    assert_eq!(ask(r#"{"tokens":1}"#), 200);
    // None of these bodies comes to its end.
    let mut chunked = begin(&gateway, "{");
    let refused = chunked.read().unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.text().contains("calls"), "{}", refused.text());
    let mut expecting = gateway.connect();
    expecting.write(CHUNKED.replace("transfer-encoding: chunked", "content-length: 100"));
    expecting.write("expect: 100-continue\r\n\r\n");
    assert_eq!(expecting.read().unwrap().status(), 429, "and no 100 before it");
    let mut wire = Wire::connect(gateway.address());
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a.test"),
        (":path", "/chat"),
        ("content-type", "application/json"),
    ]);
    wire.write(&frame(HEADERS, END_HEADERS, 1, &head));
    assert_eq!(wire.result(1), StreamResult::Other);
    assert_eq!(left(&gateway), 99);
    assert_eq!((upstream.count(), gateway.decisions()), (1, 4), "each is decided once");
    assert_eq!(ask_as_other(&gateway, 3), 200, "another client has its own limit");
}
