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
    let denied = login("/v1/auth?deny=403", "203.0.113.7");
    assert_eq!((denied.status, &denied.json()["status"]), (403, &403.into()), "{denied:?}");
    assert_eq!(denied.json()["code"], "quota-exceeded");
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
    for header in ["X-Forwarded-For", "X-Real-IP", "X-Forwarded-Uri", "X-Original-URL"] {
        let forged = [(header, "/free"), ("X-Api-Key", "one")];
        let refused = client.send_with("POST", "/v1/auth", &forged, "");
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (403, Some("untrusted-proxy"))
        );
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("127.0.0.1") && detail.contains("trusted_proxies"), "{detail}");
    }
    assert_eq!(client.send_with("GET", "/v1/auth?deny=401", &[("X-Real-IP", "x")], "").status, 401);
    let metrics = client.send("GET", "/metrics", "").body;
    assert!(metrics.contains("tollgate_auth_problems_total{reason=\"untrusted\"} 5"), "{metrics}");
    // A client that describes nothing asks for itself.
    let mut own = || client.send_with("POST", "/v1/auth", &[("X-Api-Key", "one")], "").status;
    assert_eq!([own(), own(), own()], [200, 200, 429]);
}

#[test]
fn a_target_that_servers_read_differently_is_refused() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let mut status = |target: &str| {
        client.send_with("GET", "/v1/auth", &[("X-Forwarded-Uri", target)], "").status
    };
    let targets = ["/x/../login", "/x/..;/login", "/x/..%2flogin", "/login%00", "/login#x"];
    assert_eq!(targets.map(&mut status), [400; 5]);
    assert_eq!(status("/other"), 200);
    let undescribed = client.send_with("GET", "/v1/auth", &[], "").status;
    assert_eq!(undescribed, 200, "no rule without a route matches");
    let metrics = client.send("GET", "/metrics", "").body;
    for (reason, count) in [("ambiguous", 5), ("undescribed", 1), ("untrusted", 0)] {
        let series = format!("tollgate_auth_problems_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
}

#[test]
fn a_forged_description_is_refused() {
    let server = start(RULES);
    let mut client = HttpClient::connect(server.http());
    let both = [("X-Original-URI", "/login"), ("X-Forwarded-Uri", "/free")];
    assert_eq!(client.send_with("GET", "/v1/auth", &both, "").status, 400);
    assert_eq!(client.send_with("GET", "/v1/auth?deny=403", &both, "").status, 403);
}
