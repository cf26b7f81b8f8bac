//! Single keys (peek, reset, top-up), top keys and simulations.

use serde_json::{Value, json};

use super::API;
use super::client::AdminClient;
use crate::support::start;

fn ann() -> Value {
    json!({ "domain": "shop", "rule": "api", "key": "ann" })
}

#[test]
fn a_key_listed_by_top_can_be_peeked_reset_and_topped_up() {
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    assert!(admin.passes("ann") && admin.passes("ann") && !admin.passes("ann"));
    let top = admin.get("/v1/top?by=denied&domain=shop&limit=5").json();
    let found = &top["keys"][0];
    assert_eq!((&found["requests"], &found["denied"]), (&json!(3), &json!(1)));
    let named = json!({ "domain": found["domain"], "rule": found["rule"], "key": found["key"] });
    assert_eq!(named, ann());

    let remaining = |path: &str, body: &Value| {
        admin.post(path, body).json()["limits"][0]["remaining"].as_u64().unwrap()
    };
    assert_eq!(remaining("/v1/keys/peek", &ann()), 0);
    let mut more = ann();
    more["cost"] = json!(1);
    assert_eq!(remaining("/v1/keys/topup", &more), 1);
    assert!(admin.passes("ann") && !admin.passes("ann"));
    assert_eq!(remaining("/v1/keys/reset", &ann()), 2);
    assert!(admin.passes("ann") && admin.passes("ann") && !admin.passes("ann"));
    more["cost"] = json!(1_000_000);
    assert_eq!(remaining("/v1/keys/topup", &more), 2, "never above full");
    server.stop();
}

#[test]
fn unknown_keys_and_invalid_requests_are_refused() {
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    for (path, body, status) in [
        ("/v1/keys/peek", json!({ "rule": "none", "key": "ann" }), 404),
        ("/v1/keys/peek", json!({ "domain": "none", "rule": "api", "key": "ann" }), 404),
        ("/v1/keys/reset", json!({ "rule": "api" }), 400),
        ("/v1/keys/reset", json!({ "rule": "api", "key": "ann", "amount": 3 }), 400),
        ("/v1/keys/topup", ann(), 400),
        ("/v1/keys/topup", json!({ "rule": "api", "key": "ann", "amount": -3 }), 400),
        ("/v1/keys/peek", json!([]), 400),
    ] {
        let refused = admin.post(path, &body);
        assert_eq!(refused.status, status, "{path} {body}: {}", refused.text);
    }
    for path in ["/v1/top?by=size", "/v1/top?limit=x", "/v1/top?bi=denied"] {
        assert_eq!(admin.get(path).status, 400, "{path}");
    }
    assert_eq!(admin.send("PUT", "/v1/top", "", &[]).status, 405);
    server.stop();
}

#[test]
fn top_finds_the_heavy_hitters_of_a_skewed_load() {
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    for round in 0..40 {
        admin.passes("heavy");
        if round % 2 == 0 {
            admin.passes("half as heavy");
        }
        admin.passes(&format!("light {round}"));
    }
    for by in ["requests", "denied", "growth"] {
        let top = admin.get(&format!("/v1/top?by={by}&limit=2")).json();
        let keys = top["keys"].as_array().unwrap();
        assert_eq!(keys.len(), 2, "{top}");
        assert_eq!((&keys[0]["key"], &keys[1]["key"]), (&json!("heavy"), &json!("half as heavy")));
    }
    assert_eq!(admin.get("/v1/top?domain=none").json()["keys"], json!([]));
    server.stop();
}

#[test]
fn a_simulation_uses_virtual_time_and_charges_nothing() {
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    let simulation = json!({
        "rules": "rules: [{ name: login, route: POST /login, per: ip, limit: 5/min }]",
        "requests": [
            { "request": "POST /login ip=203.0.113.7", "times": 6 },
            { "at": "12s", "request": "POST /login ip=203.0.113.7" },
        ],
    });
    let response = admin.post("/v1/simulate", &simulation).json();
    let results = &response["results"];
    assert_eq!((&results[0]["allowed"], &results[0]["denied"]), (&json!(5), &json!(1)));
    assert_eq!(results[0]["retry_after_ms"], 12_000);
    assert_eq!(results[1]["allowed"], 1);

    let active_rules = json!({ "requests": [{ "request": "user=ann", "times": 3 }] });
    let response = admin.post("/v1/simulate", &active_rules).json();
    assert_eq!(response["results"][0]["allowed"], 2);
    assert!(admin.passes("ann") && admin.passes("ann"), "not charged");

    let wrong = admin.post("/v1/simulate", &json!({ "rules": "rules: [", "requests": [] }));
    assert_eq!(wrong.status, 422);
    let many = json!({ "requests": [{ "request": "user=ann", "times": 2_000_000_000 }] });
    assert_eq!(admin.post("/v1/simulate", &many).status, 413);
    let late = json!({ "requests": [{ "request": "user=ann", "at": "-3s" }] });
    assert_eq!(admin.post("/v1/simulate", &late).status, 400);
    server.stop();
}
