//! Attributes of requests: their spelling, and keys that lack one.

use serde_json::json;
use tollgate::testing::ManualClock;

use super::client::HttpClient;
use crate::support::{TestServer, start_with};

const RULES: &str = "
domain: shop
attributes: [user]
rules:
  - { name: header, route: /header, per: 'header[\"x-org\"]', limit: 100/h }
  - { name: cookie, route: /cookie, per: 'cookie[\"s\"]', limit: 100/h }
  - { name: query, route: /query, per: 'query[\"q\"]', limit: 100/h }
  - { name: claim, route: /claim, per: 'jwt[\"sub\"]', limit: 100/h }
  - { name: user, route: /user, per: user, limit: 100/h }
";

fn start() -> TestServer {
    start_with(RULES, |config| config.clock = Some((&ManualClock::new()).into()))
}

#[test]
fn attributes_are_spelled_as_in_rules() {
    let server = start();
    let mut http = HttpClient::connect(server.http());
    for (rule, names) in [
        ("header", ["header[\"x-org\"]", "header['X-Org']", "header.x-org"]),
        ("cookie", ["cookie[\"s\"]", "cookie[s]", "cookie.s"]),
        ("query", ["query[\"q\"]", "query[q]", "query.q"]),
        ("claim", ["jwt[\"sub\"]", "jwt[sub]", "jwt.sub"]),
    ] {
        let mut left = 100;
        for name in names {
            let path = format!("/{rule}");
            let body = json!({ "domain": "shop", "attributes": { "path": path, name: "acme" } });
            let decision = http.post("/v1/check", &body.to_string()).json();
            left -= 1;
            assert_eq!(decision["limits"][0]["remaining"], left, "{name}: {decision}");
        }
    }
}

#[test]
fn requests_without_a_key_are_counted() {
    let server = start();
    let mut http = HttpClient::connect(server.http());
    let check = |http: &mut HttpClient, attributes: serde_json::Value| {
        let body = json!({ "domain": "shop", "attributes": attributes }).to_string();
        assert_eq!(http.post("/v1/check", &body).json()["allowed"], true);
    };
    check(&mut http, json!({ "path": "/user", "user": "ann" }));
    check(&mut http, json!({ "path": "/user" }));
    check(&mut http, json!({ "path": "/user", "usr": "ann" }));
    check(&mut http, json!({ "path": "/elsewhere" }));
    let metrics = http.send("GET", "/metrics", "").body;
    let series = "tollgate_missing_key_total{domain=\"shop\",rule=\"user\"} 2\n";
    assert!(metrics.contains(series), "{metrics}");
    assert_eq!(metrics.matches("tollgate_missing_key_total{").count(), 1, "{metrics}");
}
