//! Secrets in keys: hashed wherever a key appears, found by their value.

use serde_json::{Value, json};

use super::client::AdminClient;
use crate::http::client::HttpClient;
use crate::support::{TestServer, start};

const RULES: &str = r#"
domain: shop
attributes:
  device: { value: 'header["x-device"]', secret: true }
  badge: { secret: true }
  client: { value: 'header["x-api-key"]', secret: false }
rules:
  - { name: auth, when: 'has(header["authorization"])', per: 'header["authorization"]', limit: 1/h, then: 'ban [2h]' }
  - { name: session, when: 'has(cookie["session"])', per: [ip, 'cookie["session"]'], limit: 1/h }
  - { name: key, when: 'has(header["x-api-key"])', per: 'header["x-api-key"]', limit: 5/h }
  - { name: device, when: has(device), per: device, limit: 1/h }
  - { name: badge, when: has(badge), per: badge, limit: 1/h }
  - { name: fair, when: 'has(header["x-auth-token"])', limit: 100/h, fair: { by: 'header["x-auth-token"]' } }
  - { name: once, when: 'has(header["api-key"])', limit: 100/h, dedupe: 'header["api-key"]' }
  - { name: open, when: has(client) && method == "PUT", per: client, limit: 5/h }
"#;
const SECRET: &str = "s3cret-value-of-ann";

/// The attributes of requests, each of which hits the rule of that name.
const REQUESTS: [(&str, &str, &str); 7] = [
    ("auth", "header.authorization", "s3cret-value-of-ann"),
    ("session", "header.cookie", "theme=dark; session=s3cret-value-of-ann"),
    ("key", "header.x-api-key", "s3cret-value-of-ann"),
    ("device", "header.x-device", "s3cret-value-of-ann"),
    ("badge", "badge", "s3cret-value-of-ann"),
    ("fair", "header.x-auth-token", "s3cret-value-of-ann"),
    ("once", "header.api-key", "s3cret-value-of-ann"),
];

fn check(server: &TestServer, name: &str, value: &str) -> Value {
    let admin = AdminClient::with_all_rights(server);
    let attributes = json!({ "ip": "192.0.2.1", name: value });
    let response = admin.post("/v1/check", &json!({ "domain": "shop", "attributes": attributes }));
    assert_eq!(response.status, 200, "{}", response.text);
    assert!(!response.text.contains(SECRET), "{}", response.text);
    response.json()
}

#[test]
fn no_answer_contains_a_secret() {
    let server = start(RULES);
    let admin = AdminClient::with_all_rights(&server);
    for (rule, name, value) in REQUESTS {
        // A cookie is read from its header, which only forward-auth sends as one.
        if rule == "session" {
            let mut http = HttpClient::connect(server.http());
            let cookie = [("Cookie", value), ("X-Forwarded-For", "192.0.2.1")];
            for expected in [200, 429] {
                let answer = http.send_with("GET", "/v1/auth?domain=shop", &cookie, "");
                assert_eq!(answer.status, expected, "{answer:?}");
                assert!(!format!("{answer:?}").contains(SECRET), "{answer:?}");
            }
            continue;
        }
        let first = check(&server, name, value);
        assert_eq!((&first["allowed"], &first["rule"]), (&json!(true), &json!(rule)), "{first}");
        let key = first["key"].as_str().unwrap_or_default().to_owned();
        assert!(key.is_empty() || key.contains("%#"), "{first}");
        assert_eq!(check(&server, name, value)["key"], first["key"], "the same value");
        let other = check(&server, name, "another-value");
        assert_ne!(
            (&other["key"], other["allowed"] == true),
            (&json!(key.clone()), key.is_empty())
        );
    }
    for path in ["/v1/top", "/v1/decisions", "/v1/bans", "/v1/audit", "/metrics"] {
        let shown = admin.get(path);
        assert_eq!(shown.status, 200, "{path}");
        assert!(!shown.text.contains(SECRET), "{path}: {}", shown.text);
    }
    assert!(admin.get("/v1/top").text.contains("%#"));
    assert!(admin.get("/v1/bans").text.contains("%#"), "the ladder banned a hash");
}

#[test]
fn an_attribute_can_be_declared_as_no_secret() {
    let server = start(RULES);
    let admin = AdminClient::with_all_rights(&server);
    let attributes = json!({ "method": "PUT", "header.x-api-key": "public-id" });
    let body = json!({ "domain": "shop", "attributes": attributes, "cost": 5 });
    admin.post("/v1/check", &body);
    let body = json!({ "rule": "open", "key": "public-id" });
    assert_eq!(admin.post("/v1/keys/peek", &body).json()["key"], "public-id");
}

#[test]
fn operators_find_counters_and_bans_by_the_value() {
    let server = start(RULES);
    let admin = AdminClient::with_all_rights(&server);
    let key = check(&server, "header.x-api-key", SECRET)["key"].as_str().unwrap().to_owned();
    for given in [SECRET, key.as_str()] {
        let body = json!({ "rule": "key", "key": given });
        let peeked = admin.post("/v1/keys/peek", &body).json();
        assert_eq!((&peeked["key"], &peeked["limits"][0]["remaining"]), (&json!(key), &json!(4)));
    }
    let (rule, ban) = ("key", json!({ "rule": "key", "key": SECRET, "for": "1h" }));
    let added = admin.post("/v1/bans", &ban);
    assert_eq!(added.status, 201, "{}", added.text);
    let listed = admin.get("/v1/bans");
    assert_eq!(listed.json()["bans"][0]["key"], key, "{}", listed.text);
    assert!(!listed.text.contains(SECRET) && !admin.get("/v1/audit").text.contains(SECRET));
    assert_eq!(check(&server, "header.x-api-key", SECRET)["reason"], "banned");
    assert_eq!(check(&server, "header.x-api-key", "other")["allowed"], true);
    assert_eq!(admin.delete("/v1/bans/1").status, 200);
    let body = json!({ "rule": rule, "key": SECRET });
    let reset = admin.post("/v1/keys/reset", &body).json();
    assert_eq!(reset["limits"][0]["remaining"], 5, "{reset}");

    // A ban of a ladder is lifted by the value.
    for _ in 0..2 {
        check(&server, "header.authorization", SECRET);
    }
    let lifted = admin.delete(&format!("/v1/bans?rule=auth&key={SECRET}"));
    assert_eq!(lifted.json()["lifted"], true, "{}", lifted.text);
}
