//! Tests of forward-auth, with raw requests and with real proxies.

mod proxies;
mod upstream;

use crate::http::client::HttpClient;
use crate::support::{start, start_with};

const RULES: &str = "
domain: shop
rules:
  - { name: login, route: POST /login, per: ip, limit: 3/h fixed first_hit }
  - { name: keys, when: \"has(header['x-api-key'])\", per: \"header['x-api-key']\", limit: 2/h fixed first_hit }
";

#[test]
fn a_proxy_learns_whether_a_request_may_pass() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let mut login = |path: &str, from: &str| {
        let headers = [
            ("X-Forwarded-Method", "POST"),
            ("X-Forwarded-Uri", "/login?next=/"),
            ("X-Forwarded-For", from),
        ];
        client.send_with("GET", path, &headers, "")
    };
    for left in (0..3).rev() {
        let response = login("/v1/auth", "203.0.113.7");
        assert_eq!((response.status, response.body.as_str()), (200, ""));
        let ratelimit = response.header("ratelimit").unwrap();
        assert!(ratelimit.starts_with(&format!("\"login\";r={left};t=")), "{ratelimit}");
    }
    let refused = login("/v1/auth", "203.0.113.7");
    assert_eq!((refused.status, refused.json()["rule"].as_str()), (429, Some("login")));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(login("/v1/auth?deny=403", "203.0.113.7").status, 403);
    assert_eq!(login("/v1/auth?deny=200", "203.0.113.7").status, 400);
    assert_eq!(login("/v1/auth?domain=other", "203.0.113.7").status, 400);
    assert_eq!(login("/v1/auth?domain=shop", "203.0.113.8").status, 200, "another client");
}

#[test]
fn rules_see_the_headers_of_the_original_request() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let mut with_key = |method: &str, headers: &[(&str, &str)]| {
        client.send_with(method, "/v1/auth", headers, "").status
    };
    // Any method works, because some proxies use that of the original request.
    assert_eq!(with_key("GET", &[("X-Api-Key", "k1")]), 200);
    assert_eq!(with_key("PUT", &[("x-api-key", " k1 ")]), 200);
    assert_eq!(with_key("POST", &[("X-API-KEY", "k1")]), 429);
    assert_eq!(with_key("GET", &[("X-Api-Key", "k2")]), 200);
}

#[test]
fn only_trusted_proxies_can_describe_a_request() {
    let server = start_with(RULES, |config| {
        config.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
    });
    let mut client = HttpClient::connect(server.http());
    let statuses: Vec<_> = (1..=5)
        .map(|last| {
            let forged = [
                ("X-Forwarded-For", &*format!("203.0.113.{last}")),
                ("X-Real-IP", &*format!("203.0.113.{last}")),
                ("X-Forwarded-Uri", "/free"),
                ("X-Api-Key", "one"),
            ];
            client.send_with("POST", "/v1/auth", &forged, "").status
        })
        .collect();
    assert_eq!(statuses, [200, 200, 429, 429, 429]);
}

#[test]
fn a_forged_description_is_refused() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let both = [("X-Original-URI", "/login"), ("X-Forwarded-Uri", "/free")];
    assert_eq!(client.send_with("GET", "/v1/auth", &both, "").status, 400);
    assert_eq!(client.send_with("GET", "/v1/auth?deny=403", &both, "").status, 403);
}
