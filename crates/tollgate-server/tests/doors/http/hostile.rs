//! Hostile bytes: smuggling, oversized heads, injections.

use super::client::HttpClient;
use crate::support::start;

const RULES: &str =
    "domain: d\nattributes: [user]\nrules: [{ name: all, per: user, limit: 1000000/s }]";

#[test]
fn requests_that_two_servers_could_read_differently_are_refused() {
    let server = start(RULES);
    let smuggled = "POST /v1/reset HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    for head in [
        "Content-Length: 2\r\nContent-Length: 3",
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\x0bchunked",
        "Content-Length: +2",
        "Content-Length: 2, 3",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999999",
        "X: y\r\n Content-Length: 5",
        "X\r\nY: z",
        "Bad Name: x",
        "X: a\0b",
    ] {
        let mut client = HttpClient::connect(server.http());
        client.write(format!("POST /v1/check HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n{{}}{smuggled}"));
        let response = client.read();
        let status = response.as_ref().map(|response| response.status);
        assert_eq!(status, Some(400), "{head:?}: {response:?}");
        assert!(client.read().is_none(), "{head:?}: nothing after it is answered");
    }
}

#[test]
fn a_length_beside_chunks_does_not_smuggle() {
    let server = start(RULES);
    // With both headers chunked wins, and the rest of the bytes is not read as a request.
    let mut client = HttpClient::connect(server.http());
    client.write(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n\
         2\r\n{}\r\n0\r\n\r\nPOST /v1/reset HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    );
    let first = client.read().unwrap();
    if first.status == 200 {
        assert_eq!(first.json()["reason"], "within_limits");
        assert!(client.read().is_none_or(|second| second.status == 200));
    } else {
        assert_eq!(first.status, 400);
    }
}

#[test]
fn the_size_of_heads_is_bounded() {
    let server = start(RULES);
    let mut long = HttpClient::connect(server.http());
    long.write(format!("GET /livez HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(200_000)));
    assert_eq!(long.read().map(|response| response.status), Some(431));
    let mut many = HttpClient::connect(server.http());
    many.write(format!("GET /livez HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(500)));
    assert_eq!(many.read().map(|response| response.status), Some(431));
    let mut url = HttpClient::connect(server.http());
    url.write(format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "u".repeat(100_000)));
    assert!(matches!(url.read().map(|response| response.status), Some(414 | 431)));
    for nonsense in
        ["\r\n\r\n\0\0\0", "GET\r\n\r\n", "*3\r\n$4\r\nPING\r\n\r\n", "\x16\x03\x01\x02"]
    {
        let mut client = HttpClient::connect(server.http());
        client.write(nonsense);
        client.write("\r\n\r\n");
        let status = client.read().map(|response| response.status);
        assert!(matches!(status, None | Some(400)), "{nonsense:?}: {status:?}");
    }
}

#[test]
fn quoted_client_input_is_escaped() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let odd = "\\u001b[31m\\r\\nSet-Cookie: a=b<script>alert(1)</script>\\u0000";
    let body = format!(r#"{{"attributes":{{"user":"{odd}"}}}}"#);
    let response = client.post("/v1/check", &body);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")));
    assert!(response.header("set-cookie").is_none());
    assert!(!response.body.contains(['\u{1b}', '\r', '\n', '\0']), "{:?}", response.body);
    assert!(response.json()["key"].as_str().unwrap().contains("<script>"));
    for body in [
        format!(r#"{{"domain":"{odd}"}}"#),
        format!(r#"{{"{odd}":1}}"#),
        format!(r#"{{"key":"k","limit":"{odd}"}}"#),
    ] {
        for path in ["/v1/check?status=true", "/v1/peek"] {
            let response = client.post(path, &body);
            assert_eq!(response.status, 400, "{body}");
            assert_eq!(response.header("content-type"), Some("application/problem+json"));
            assert!(!response.body.contains(['\u{1b}', '\r', '\0']), "{:?}", response.body);
        }
    }
}

#[test]
fn an_address_has_one_counter_in_all_its_spellings() {
    let server =
        start("rules: [{ name: r, route: POST /login, per: ip, limit: 5/h fixed first_hit }]");
    let mut client = HttpClient::connect(server.http());
    let spellings = [
        r#"{"ip":"192.0.2.1","route":"POST /login"}"#,
        r#"{"ip":"::ffff:192.0.2.1","route":"POST \/login"}"#,
        r#"{"ip":"192.0.2.1","method":"POST","path":"//login"}"#,
        r#"{"ip":" 192.0.2.1","method":"POST","path":"/./login?x=1"}"#,
        r#"{"ip":"192.0.2.1","route":"POST /%6cogin"}"#,
        r#"{"\u0069p":"192.0.2.1","ro\u0075te":"POST /login"}"#,
    ];
    let allowed: Vec<_> = spellings
        .iter()
        .map(|attributes| {
            let response = client.post("/v1/check", &format!(r#"{{"attributes":{attributes}}}"#));
            response.json()["allowed"].as_bool().unwrap()
        })
        .collect();
    assert_eq!(allowed, [true, true, true, true, true, false]);
}
