//! Clients that leave and upstreams that die: what is not known stays charged.

use serde_json::json;
use tollgate_rig::{Upstream, WebClient, until};

use super::{Model, RULES, all_settled, chat, left, post, settled};
use crate::support::{start, start_with};

fn begin(address: std::net::SocketAddr, max: u64) -> WebClient {
    let body = json!({ "max_tokens": max, "use": 1, "stream": true }).to_string();
    let mut client = WebClient::connect(address);
    let head = "POST /v1/chat HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n";
    client.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    client
}

#[test]
fn who_leaves_before_the_number_is_known_keeps_the_charge() {
    let model = Model::start();
    let gateway = start(RULES, &model.upstream);
    let mut client = begin(gateway.address(), 40);
    assert_eq!(client.read_head().unwrap().status(), 200);
    assert_eq!(left(&gateway), 60);
    drop(client);
    until("it is noticed", || settled(&gateway, "tokens", "kept") == 1);
    assert_eq!(left(&gateway), 60);
    model.gate.set(true);
    assert_eq!(chat(gateway.address(), 61, 1, true).status(), 429);
    assert_eq!(chat(gateway.address(), 60, 10, true).status(), 200);
    assert_eq!(left(&gateway), 50);
}

#[test]
fn who_leaves_before_the_answer_keeps_the_charge() {
    let model = Model::start();
    let gateway = start(RULES, &model.upstream);
    let body = json!({ "max_tokens": 30, "use": 1 }).to_string();
    let mut client = WebClient::connect(gateway.address());
    let head = "POST /v1/chat HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n";
    client.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    until("it is with the model", || model.upstream.count() == 1);
    drop(client);
    until("it is noticed", || settled(&gateway, "tokens", "kept") == 1);
    assert_eq!(left(&gateway), 70);
    model.gate.set(true);
}

#[test]
fn what_is_known_when_a_client_leaves_is_settled() {
    let rules = RULES.replace("response.body.usage.total_tokens", "response.bytes / 10");
    let model = Model::start();
    let gateway = start(&rules, &model.upstream);
    let mut client = begin(gateway.address(), 40);
    client.read_head().unwrap();
    client.read_bytes(67).unwrap();
    drop(client);
    until("it is noticed", || settled(&gateway, "tokens", "refunded") == 1);
    assert_eq!(left(&gateway), 94, "one event of 67 bytes");
    model.gate.set(true);
}

#[test]
fn an_upstream_that_dies_keeps_the_charge_and_one_that_is_away_does_not() {
    let model = Model::start();
    let gateway = start(RULES, &model.upstream);
    model.gate.set(true);
    let dies = json!({ "max_tokens": 20, "use": 1, "stream": true, "dies": true });
    let mut client = WebClient::connect(gateway.address());
    let body = dies.to_string();
    let head = "POST /v1/chat HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n";
    client.write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    assert!(client.read().is_none(), "it breaks off");
    until("it is noticed", || settled(&gateway, "tokens", "kept") == 1);
    assert_eq!(left(&gateway), 80);

    let gone = Upstream::start();
    let url = gone.url();
    drop(gone);
    let gateway = start_with(RULES, &[&url], |_| {});
    assert_eq!(chat(gateway.address(), 100, 1, false).status(), 503);
    until("it is settled", || all_settled(&gateway, "tokens") == 1);
    assert_eq!(left(&gateway), 100, "it was sent to nobody");
}

#[test]
fn answers_without_a_number_keep_the_charge_unless_rules_say_otherwise() {
    let answer = |_: &tollgate_rig::Message, stream: &mut std::net::TcpStream| {
        let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n";
        let _ = std::io::Write::write_all(
            stream,
            format!("{head}content-length: 12\r\n\r\n{{\"error\":{{}}}}").as_bytes(),
        );
        tollgate_rig::AfterResponse::Keep
    };
    let upstream = Upstream::answering(answer);
    let gateway = start(RULES, &upstream);
    assert_eq!(post(gateway.address(), r#"{"max_tokens":20}"#).status(), 400);
    assert_eq!((left(&gateway), settled(&gateway, "tokens", "kept")), (80, 1));
    let free = "'response.status >= 400 ? 0 : response.body.usage.total_tokens'";
    let gateway = start(&RULES.replace("response.body.usage.total_tokens", free), &upstream);
    assert_eq!(post(gateway.address(), r#"{"max_tokens":20}"#).status(), 400);
    assert_eq!((left(&gateway), settled(&gateway, "tokens", "refunded")), (100, 1));
}
