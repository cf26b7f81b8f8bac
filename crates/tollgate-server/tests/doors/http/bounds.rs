//! Timeouts, body sizes, tokens and the shutdown of the HTTP door.

use std::io::ErrorKind;
use std::time::Duration;

use tollgate_server::Config;

use super::client::HttpClient;
use crate::support::{TestServer, start_with};

const RULES: &str = "rules: [{ name: all, limit: 1000000/s }]";
const SHORT: Duration = Duration::from_millis(500);

fn start_with_short_timeouts() -> TestServer {
    start_with(RULES, |config: &mut Config| {
        config.bounds.header_timeout = SHORT;
        config.bounds.write_timeout = SHORT;
        config.bounds.idle_timeout = 4 * SHORT;
        config.bounds.body = 10_000;
    })
}

#[test]
fn an_incomplete_head_times_out() {
    let server = start_with_short_timeouts();
    for half in
        ["P", "PRI * HTT", "POST /v1/check HT", "POST /v1/check HTTP/1.1\r\nHost: x\r\nX-Slow: "]
    {
        let mut client = HttpClient::connect(server.http());
        client.write(half);
        assert!(client.is_over(), "{half}");
    }
    // The timeout also holds after a valid request.
    let mut client = HttpClient::connect(server.http());
    assert_eq!(client.post("/v1/check", "{}").status, 200);
    client.write("POST /v1/check HTTP/1.1\r\n");
    assert!(client.is_over());
}

#[test]
fn an_idle_connection_is_closed_and_an_active_one_stays_open() {
    let server = start_with_short_timeouts();
    let mut silent = HttpClient::connect(server.http());
    let mut talking = HttpClient::connect(server.http());
    let mut was_silent = HttpClient::connect(server.http());
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
    let server = start_with_short_timeouts();
    let mut slow = HttpClient::connect(server.http());
    slow.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
    assert_eq!(slow.read().unwrap().status, 408);
    let large = format!("{{\"domain\":\"{}\"}}", "x".repeat(10_000));
    let response = HttpClient::connect(server.http()).post("/v1/check", &large);
    assert_eq!((response.status, &response.json()["code"]), (413, &"too-large".into()));
    let mut chunked = HttpClient::connect(server.http());
    chunked.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..20 {
        chunked.write(format!("400\r\n{}\r\n", "x".repeat(1024)));
    }
    assert_eq!(chunked.read().unwrap().status, 413);
    let mut in_pieces = HttpClient::connect(server.http());
    in_pieces.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    in_pieces.write("1\r\n{\r\n1\r\n}\r\n0\r\n\r\n");
    assert_eq!(in_pieces.read().unwrap().status, 200);
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let server = start_with_short_timeouts();
    let mut client = HttpClient::connect(server.http());
    // The OpenAPI document is long: responses fill all buffers, and then requests do.
    let requests = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let error = loop {
        if let Err(error) = client.try_write(&requests) {
            break error.kind();
        }
    };
    assert!(matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{error}");
}

#[test]
fn calls_need_a_token_where_tokens_are_configured() {
    let token = "0123456789abcdef";
    let server = start_with(RULES, |config| {
        config.data_tokens = Some(format!("app:{token}").parse().unwrap());
    });
    let mut client = HttpClient::connect(server.http());
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
            let response = client.send_with("POST", path, &headers, "{}");
            assert_eq!(response.status, status, "{path} {header:?}");
            assert_eq!(response.header("www-authenticate").is_some(), status == 401);
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
fn a_shutdown_loses_no_response() {
    let server = start_with(RULES, |config| {
        config.drain.notice = Duration::from_secs(1);
        config.drain.patience = Duration::from_secs(5);
    });
    let mut talking = HttpClient::connect(server.http());
    let mut idle = HttpClient::connect(server.http());
    let mut busy = HttpClient::connect(server.http());
    for client in [&mut talking, &mut idle] {
        let response = client.post("/v1/check", "{}");
        assert_eq!((response.status, response.header("connection")), (200, None));
    }
    busy.write("POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{");
    // The server counts a request once it has read its head.
    assert_eq!(talking.post("/v1/check", "{}").status, 200);
    let stopping = std::thread::spawn(move || server.stop());
    let last = loop {
        let response = talking.post("/v1/check", "{}");
        assert_eq!(response.status, 200);
        if response.header("connection") == Some("close") {
            break talking;
        }
    };
    let mut last = last;
    assert!(last.is_over(), "ended, and not reset");
    assert!(idle.is_over(), "ended, and not reset");
    busy.write("}");
    let response = busy.read().unwrap();
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    assert!(busy.is_over());
    stopping.join().unwrap();
}
