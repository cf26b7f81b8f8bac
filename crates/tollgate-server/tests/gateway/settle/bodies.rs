//! Fields of the request's body: read where rules name them, and nowhere else.

use serde_json::json;
use tollgate_rig::{Upstream, WebClient};

use super::{RULES, chat, left, post};
use crate::support::{start, start_with};

fn send(address: std::net::SocketAddr, headers: &[(&str, &str)], body: &str) -> u16 {
    WebClient::connect(address).send("POST", "/v1/chat", headers, body).status()
}

#[test]
fn a_body_that_was_read_is_sent_on_as_it_came() {
    let upstream = Upstream::start();
    let gateway = start(RULES, &upstream);
    let body = "  {\"max_tokens\" : 1.0e0,\n\"x\":\"\u{e9}\"} ";
    assert_eq!(post(gateway.address(), body).status(), 200);
    let seen = upstream.last();
    assert_eq!(seen.text(), body);
    assert_eq!(seen.header("content-length"), Some(&*body.len().to_string()));
    assert_eq!(seen.header("accept-encoding"), Some("identity"), "answers are to be read");
    assert_eq!(left(&gateway), 99);

    let mut client = WebClient::connect(gateway.address());
    client.write("POST /v1/chat HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n");
    client.write("transfer-encoding: chunked\r\n\r\n8\r\n{\"max_to\r\n");
    client.write("b\r\nkens\": 9  }\r\n0\r\n\r\n");
    assert_eq!(client.read().unwrap().status(), 200);
    assert_eq!(upstream.last().text(), "{\"max_tokens\": 9  }");
    assert_eq!(left(&gateway), 90);
}

#[test]
fn a_body_that_no_rule_reads_is_not_read() {
    let upstream = Upstream::start();
    let gateway = start(RULES, &upstream);
    let mut client = WebClient::connect(gateway.address());
    client.write("POST /other HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n");
    client.write("accept-encoding: gzip\r\ncontent-length: 17\r\n\r\n");
    client.write("{\"max_tokens\":50}");
    assert_eq!(client.read().unwrap().status(), 200);
    assert_eq!(upstream.last().header("accept-encoding"), Some("gzip"));
    assert_eq!(left(&gateway), 100);
}

#[test]
fn what_cannot_be_read_takes_the_whole_limit() {
    let json = ("content-type", "application/json");
    let large = format!("{{\"max_tokens\":1,\"x\":\"{}\"}}", "x".repeat(2000));
    let ways: [(&[(&str, &str)], &str); 7] = [
        (&[], r#"{"max_tokens":1}"#),
        (&[("content-type", "text/plain")], r#"{"max_tokens":1}"#),
        (&[json, ("content-encoding", "gzip")], r#"{"max_tokens":1}"#),
        (&[json], r#"{"max_tokens":1}{"max_tokens":1000}"#),
        (&[json], &large),
        (&[json], r#"{"messages":[]}"#),
        (&[json], r#"{"max_tokens":0}"#),
    ];
    let upstream = Upstream::start();
    for (headers, body) in ways {
        let set_up = |config: &mut tollgate_server::Config| {
            config.gateway.as_mut().unwrap().read_body = 1000;
        };
        let gateway = start_with(RULES, &[&upstream.url()], set_up);
        assert_eq!(send(gateway.address(), headers, body), 200, "{body}");
        assert_eq!(upstream.last().text(), body, "it is sent on all the same");
        assert_eq!(left(&gateway), 0, "{headers:?} {body}");
        assert_eq!(send(gateway.address(), headers, body), 429);
    }
    let gateway = start(&RULES.replace("max_tokens\n", "max_tokens\n      else: 30\n"), &upstream);
    for remaining in [70, 40, 10] {
        assert_eq!(send(gateway.address(), &[], r#"{"max_tokens":1}"#), 200);
        assert_eq!(left(&gateway), remaining);
    }
}

#[test]
fn what_the_model_could_read_otherwise_is_not_sent_on() {
    let upstream = Upstream::start();
    let gateway = start(RULES, &upstream);
    for body in [
        r#"{"max_tokens":1,"max_tokens":1000}"#,
        r#"{"max_tokens":1,"m\u0061x_tokens":1000}"#,
        r#"{"max_tokens":1,"MAX_tokens":1000}"#,
    ] {
        let answer = post(gateway.address(), body);
        assert_eq!(answer.status(), 400);
        assert!(answer.text().contains("body.max_tokens"), "{}", answer.text());
    }
    assert_eq!((upstream.count(), left(&gateway)), (0, 100));
}

#[test]
fn rules_match_and_count_by_fields() {
    let rules = r#"
rules:
  - { name: large, when: 'body.model == "large"', per: body.user, limit: 1/year }
"#;
    let upstream = Upstream::start();
    let gateway = start(rules, &upstream);
    let ask = |model: &str, user: &str| {
        post(gateway.address(), &json!({ "model": model, "user": user }).to_string()).status()
    };
    assert_eq!([ask("large", "ann"), ask("large", "ann"), ask("large", "bob")], [200, 429, 200]);
    assert_eq!([ask("small", "ann"), ask("small", "ann")], [200, 200]);
}

#[test]
fn a_client_that_does_not_finish_its_body_is_told() {
    let upstream = Upstream::start();
    let gateway = start_with(RULES, &[&upstream.url()], |config| {
        config.gateway.as_mut().unwrap().upload_timeout = std::time::Duration::from_millis(300);
    });
    let begin = || {
        let mut client = WebClient::connect(gateway.address());
        client
            .write("POST /v1/chat HTTP/1.1\r\nhost: a.test\r\ncontent-type: application/json\r\n");
        client.write("content-length: 17\r\n\r\n{\"max_tok");
        client
    };
    assert_eq!(begin().read().unwrap().status(), 408);
    let mut leaving = begin();
    leaving.finish();
    assert!(leaving.read().is_none_or(|answer| answer.status() == 400));
    assert_eq!((upstream.count(), left(&gateway)), (0, 100));
}

#[test]
fn compressed_answers_keep_the_charge() {
    let upstream = Upstream::answering(|_, stream| {
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n";
        let text = format!("{head}content-length: 4\r\n\r\nzzzz");
        let _ = std::io::Write::write_all(stream, text.as_bytes());
        tollgate_rig::AfterResponse::Keep
    });
    let gateway = start(RULES, &upstream);
    assert_eq!(chat(gateway.address(), 30, 1, false).status(), 200);
    assert_eq!((left(&gateway), super::settled(&gateway, "tokens", "kept")), (70, 1));
}
