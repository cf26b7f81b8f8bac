//! A client has one counter, whatever it sends.

use std::net::SocketAddr;

use tollgate_tower::RateLimitLayer;

use super::serve::{get, hello, raw};

async fn start_with_rules(rules: &str) -> SocketAddr {
    hello(RateLimitLayer::from_rules(rules.parse().unwrap())).await
}

#[tokio::test]
async fn forwarding_headers_of_untrusted_clients_are_ignored() {
    let address = hello(RateLimitLayer::per_ip("1/h".parse().unwrap())).await;
    assert_eq!(get(address, "/", "").await.status, 200);
    for headers in [
        "x-forwarded-for: 198.51.100.1\r\n",
        "X-Forwarded-For: 198.51.100.2\r\nx-forwarded-for: 198.51.100.3\r\n",
        "forwarded: for=198.51.100.4\r\n",
        "x-real-ip: 198.51.100.5\r\n",
        "true-client-ip: 198.51.100.6\r\ncf-connecting-ip: 198.51.100.7\r\n",
        "connection: x-forwarded-for\r\nx-forwarded-for: 198.51.100.8\r\n",
    ] {
        assert_eq!(get(address, "/", headers).await.status, 429, "{headers}");
    }
}

#[tokio::test]
async fn forged_forwarding_headers_do_not_change_the_client_address() {
    let layer = RateLimitLayer::per_ip("1/h".parse().unwrap());
    let address = hello(layer.trusted_proxies(["127.0.0.0/8".parse().unwrap()])).await;
    let from = async |hops: &str| get(address, "/", &format!("x-forwarded-for: {hops}\r\n")).await;
    assert_eq!(from("203.0.113.7").await.status, 200);
    for hops in [
        "203.0.113.7",
        "1.1.1.1, 203.0.113.7",
        "nonsense, 203.0.113.7",
        "1.1.1.1\r\nX-Forwarded-For: 203.0.113.7",
        "203.0.113.7:4711",
        "::ffff:203.0.113.7",
        "[::FFFF:203.0.113.7]:80",
        "203.0.113.7, 127.0.0.9",
        "  203.0.113.7  ",
        "203.0.113.7\r\nconnection: x-forwarded-for",
    ] {
        assert_eq!(from(hops).await.status, 429, "{hops}");
    }
    assert_eq!(from("2001:db8:1:2::1").await.status, 200);
    for hops in [
        "2001:db8:1:2::1",
        "2001:DB8:1:2:0:0:0:1",
        "2001:0db8:0001:0002:0000:0000:0000:0001",
        "[2001:db8:1:2::1]:443",
        "2001:db8:1:2::2",
        "2001:db8:1:2:ffff:ffff:ffff:ffff",
    ] {
        assert_eq!(from(hops).await.status, 429, "{hops}");
    }
    assert_eq!(from("2001:db8:1:3::1").await.status, 200, "another /64");
}

#[tokio::test]
async fn all_spellings_of_a_path_share_a_counter() {
    let address = start_with_rules("rules: [{ name: login, route: /api/login, limit: 1/h }]").await;
    assert_eq!(get(address, "/api/login", "").await.status, 200);
    for target in [
        "//api/login",
        "/api//login",
        "/./api/login",
        "/api/./login",
        "/api/%2e/login",
        "/api/%2E/login",
        "/x/../api/login",
        "/x/%2e%2e/api/login",
        "/api%2flogin",
        "/api/%6cogin",
        "/api/login/",
        "/api/login?x=1",
        "/api/login?",
        "/api\\login",
        "http://a.example/api/login",
        "HTTP://other.example/api/login",
    ] {
        assert_eq!(get(address, target, "").await.status, 429, "{target}");
    }
}

#[tokio::test]
async fn all_spellings_of_a_host_share_a_counter() {
    let address = start_with_rules("rules: [{ name: site, per: host, limit: 1/h }]").await;
    assert_eq!(get(address, "/", "").await.status, 200);
    for host in ["a.example", "A.EXAMPLE", "a.example:80", "a.example.", " a.example "] {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        assert_eq!(raw(address, request.as_bytes()).await.status, 429, "{host}");
    }
    assert_eq!(get(address, "http://A.example:8080/", "").await.status, 429);
}

#[tokio::test]
async fn repeated_and_missing_headers_share_one_counter_each() {
    let layer = RateLimitLayer::per_header("x-api-key", "1/h".parse().unwrap()).unwrap();
    let address = hello(layer).await;
    assert_eq!(get(address, "/", "x-api-key: k\r\n").await.status, 200);
    for headers in [
        "X-API-KEY: k\r\n",
        "x-api-key:k\r\n",
        "x-api-key: \t k \t \r\n",
        "x-api-key: k\r\nX-Api-Key: k\r\n",
        "connection: x-api-key\r\nx-api-key: k\r\n",
    ] {
        assert_eq!(get(address, "/", headers).await.status, 429, "{headers}");
    }
    // All requests with different values share one counter, and so do all without the header.
    assert_eq!(get(address, "/", "x-api-key: k\r\nx-api-key: 1\r\n").await.status, 200);
    for headers in ["x-api-key: k\r\nx-api-key: 2\r\n", "x-api-key: 3\r\nx-api-key: k\r\n"] {
        assert_eq!(get(address, "/", headers).await.status, 429, "{headers}");
    }
    assert_eq!(get(address, "/", "").await.status, 200);
    assert_eq!(get(address, "/", "").await.status, 429);
    for nul in [&b"x-api-key: k\0\r\n"[..], b"x-api-key: \0k\r\n", b"x-api-key\0: k\r\n"] {
        let head = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n";
        let reply = raw(address, &[head, nul, b"\r\n"].concat()).await;
        assert_eq!(reply.status, 400, "{reply:?}");
    }
}

#[tokio::test]
async fn similar_identities_have_different_counters() {
    let layer = RateLimitLayer::from_rules(
        r#"rules: [{ name: org, per: ['header["x-org"]', 'header["x-user"]'], limit: 1/h }]"#
            .parse()
            .unwrap(),
    );
    let address = hello(layer).await;
    let head = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n".to_vec();
    for (org, user) in [
        (&b"a"[..], &b"b:c"[..]),
        (b"a:b", b"c"),
        (b"a|b", b"c"),
        (b"a", b"b|c"),
        (b"{a}", b"c"),
        (b"a", b"{c}"),
        (b"%-", b"c"),
        (b"%", b"c"),
        (b"", b"c"),
        (b"\xff", b"c"),
        (b"\xfe", b"c"),
        ("\u{fffd}".as_bytes(), b"c"),
        ("\u{e9}".as_bytes(), b"c"),
        (b"\xe9", b"c"),
    ] {
        let lines = [b"x-org: ", org, b"\r\nx-user: ", user, b"\r\n\r\n"].concat();
        let request = [&head[..], &lines].concat();
        assert_eq!(raw(address, &request).await.status, 200, "{org:?} {user:?} is new");
        assert_eq!(raw(address, &request).await.status, 429, "{org:?} {user:?} is counted");
    }
}
