//! What a client may cost before it is cut off, who may ask at all, and how the door closes.

use std::io::ErrorKind;
use std::time::Duration;

use tollgate_server::Config;

use super::client::Client;
use crate::support::{Running, start_with};

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";
const SHORT: Duration = Duration::from_millis(500);

fn impatient() -> Running {
    start_with(RULES, |config: &mut Config| {
        config.bounds.header_timeout = SHORT;
        config.bounds.write_timeout = SHORT;
        config.bounds.idle_timeout = 4 * SHORT;
        config.bounds.body = 10_000;
    })
}

#[test]
fn half_a_head_is_cut_off() {
    let server = impatient();
    for half in
        ["P", "PRI * HTT", "POST /v1/check HT", "POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Slow: "]
    {
        let mut client = Client::connect(server.http());
        client.write(half);
        assert!(client.is_over(), "{half}");
    }
    // Also after a request that was in order.
    let mut client = Client::connect(server.http());
    assert_eq!(client.post("/v1/check", "{}").status, 200);
    client.write("POST /v1/check HTTP/1.1\r\n");
    assert!(client.is_over());
}

#[test]
fn a_silent_connection_ends_and_a_talking_one_stays() {
    let server = impatient();
    let mut silent = Client::connect(server.http());
    let mut talking = Client::connect(server.http());
    let mut was_silent = Client::connect(server.http());
    assert_eq!(was_silent.post("/v1/check", "{}").status, 200);
    let over = std::thread::spawn(move || silent.is_over() && was_silent.is_over());
    while !over.is_finished() {
        assert_eq!(talking.post("/v1/check", "{}").status, 200);
        std::thread::park_timeout(SHORT / 4);
    }
    assert!(over.join().unwrap());
    assert_eq!(talking.post("/v1/check", "{}").status, 200);
}

#[test]
fn a_slow_or_large_body_is_refused() {
    let server = impatient();
    let mut slow = Client::connect(server.http());
    slow.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
    assert_eq!(slow.read().unwrap().status, 408);
    let large = format!("{{\"domain\":\"{}\"}}", "x".repeat(10_000));
    let answer = Client::connect(server.http()).post("/v1/check", &large);
    assert_eq!((answer.status, &answer.json()["code"]), (413, &"too-large".into()));
    let mut chunked = Client::connect(server.http());
    chunked.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..20 {
        chunked.write(format!("400\r\n{}\r\n", "x".repeat(1024)));
    }
    assert_eq!(chunked.read().unwrap().status, 413);
    let mut in_pieces = Client::connect(server.http());
    in_pieces.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    in_pieces.write("1\r\n{\r\n1\r\n}\r\n0\r\n\r\n");
    assert_eq!(in_pieces.read().unwrap().status, 200);
}

#[test]
fn who_does_not_read_is_cut_off() {
    let server = impatient();
    let mut client = Client::connect(server.http());
    // The description is long: answers fill every buffer in between, then so do the requests.
    let requests = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let error = loop {
        if let Err(error) = client.try_write(&requests) {
            break error.kind();
        }
    };
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
}

#[test]
fn tokens_are_asked_for_where_configured() {
    let token = "0123456789abcdef";
    let server = start_with(RULES, |config| {
        config.data_tokens = Some(format!("app:{token}").parse().unwrap());
    });
    let mut client = Client::connect(server.http());
    let right = format!("Bearer {token}");
    let wrong = format!("Bearer {token}0");
    for (header, status) in [
        (None, 401),
        (Some(("Authorization", &*wrong)), 401),
        (Some(("Authorization", &*right)), 200),
        (Some(("Authorization", &*wrong)), 401),
        (Some(("Authorization", &*right)), 200),
        (Some(("Authorization", token)), 401),
        (Some(("X-Tollgate-Token", token)), 401),
    ] {
        let headers: Vec<_> = header.into_iter().collect();
        for path in ["/v1/check", "/v1/peek"] {
            let answer = client.send_with("POST", path, &headers, "{}");
            assert_eq!(answer.status, status, "{path} {header:?}");
            assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
        }
    }
    let by_proxy = [("X-Tollgate-Token", token), ("Authorization", "Bearer of-the-client")];
    assert_eq!(client.send_with("GET", "/v1/auth", &by_proxy, "").status, 200);
    assert_eq!(client.send("GET", "/v1/auth", "").status, 401);
    for open in ["/livez", "/openapi.json"] {
        assert_eq!(client.send("GET", open, "").status, 200, "{open}");
    }
}

#[test]
fn the_door_closes_without_losing_an_answer() {
    let server = start_with(RULES, |config| {
        config.drain.notice = Duration::from_secs(1);
        config.drain.patience = Duration::from_secs(5);
    });
    let mut talking = Client::connect(server.http());
    let mut idle = Client::connect(server.http());
    let mut busy = Client::connect(server.http());
    for client in [&mut talking, &mut idle] {
        let answer = client.post("/v1/check", "{}");
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
    busy.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{");
    // The server has seen it once it is under way.
    assert_eq!(talking.post("/v1/check", "{}").status, 200);
    let stopping = std::thread::spawn(move || server.stop());
    let last = loop {
        let answer = talking.post("/v1/check", "{}");
        assert_eq!(answer.status, 200);
        if answer.header("connection") == Some("close") {
            break talking;
        }
    };
    let mut last = last;
    assert!(last.is_over(), "ended, and not reset");
    assert!(idle.is_over(), "ended, and not reset");
    busy.write("}");
    let answer = busy.read().unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(busy.is_over());
    stopping.join().unwrap();
}
