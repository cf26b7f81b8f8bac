//! Bans by the ladder of a rule: listed, exported, counted, lifted.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::testing::ManualClock;

use super::client::AdminClient;
use crate::support::start_with;

const RULES: &str = "
domain: shop
attributes: [user]
rules:
  - { name: login, when: has(ip), per: ip, limit: 1/h, then: 'ban [10min, 1h] after 2 denials in 1min' }
  - { name: api, when: has(user), per: user, limit: 1/s, then: ban 10min }
";

fn check_attribute(admin: &AdminClient, name: &str, value: &str) -> Value {
    admin.post("/v1/check", &json!({ "attributes": { name: value } })).json()
}

fn bans(admin: &AdminClient) -> Vec<Value> {
    admin.get("/v1/bans").json()["bans"].as_array().unwrap().clone()
}

#[test]
fn a_ban_is_listed_exported_counted_and_lifted() {
    let clock = ManualClock::new();
    let server = start_with(RULES, |config| config.clock = Some((&clock).into()));
    let admin = AdminClient::with_all_rights(&server);
    let reasons: Vec<Value> =
        (0..4).map(|_| check_attribute(&admin, "ip", "192.0.2.1")["reason"].clone()).collect();
    assert_eq!(reasons, ["within_limits", "over_limit", "banned", "banned"]);
    while check_attribute(&admin, "user", "mallory")["allowed"] == true {}
    let by_hand = json!({ "rule": "login", "key": "198.51.100.0/24", "for": "1h" });
    assert_eq!(admin.post("/v1/bans", &by_hand).status, 201);

    let listed = bans(&admin);
    let shown = |ban: &Value| [&ban["by"], &ban["rule"], &ban["key"]].map(Value::to_string);
    let all: Vec<_> = listed.iter().map(shown).collect();
    assert_eq!(all[0], ["\"hand\"", "\"login\"", "\"198.51.100.0/24\""]);
    assert_eq!(all[1], ["\"ladder\"", "\"api\"", "\"mallory\""]);
    assert_eq!(all[2], ["\"ladder\"", "\"login\"", "\"192.0.2.1\""]);
    assert_eq!((&listed[2]["rung"], &listed[2]["rest_ms"]), (&json!(1), &json!(600_000)));
    assert_eq!(listed[2]["until"], "2026-01-01T12:10:00Z");
    assert_eq!(admin.get("/v1/bans?format=text").text, "192.0.2.1\n198.51.100.0/24\n");
    assert_eq!(admin.get("/v1/bans?format=nginx&rule=api").text, "", "no address");
    let nginx = admin.get("/v1/bans?format=nginx&domain=shop").text;
    assert_eq!(nginx, "deny 192.0.2.1;\ndeny 198.51.100.0/24;\n");

    let metrics = admin.get("/metrics").text;
    for line in [
        "tollgate_bans_total{domain=\"shop\",rule=\"api\"} 1",
        "tollgate_bans_total{domain=\"shop\",rule=\"login\"} 1",
        "tollgate_banned_keys 2",
        "tollgate_decisions_total{domain=\"shop\",rule=\"login\",outcome=\"banned\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let top = admin.get("/v1/top?by=denied").json();
    let keys = top["keys"].as_array().unwrap();
    assert!(keys.iter().all(|key| key["banned"] == true), "{top}");

    let lift = "/v1/bans?rule=login&key=192.0.2.1";
    let lifted = admin.delete(lift);
    assert_eq!(lifted.json(), json!({ "lifted": true, "still_by_hand": [] }));
    assert_eq!(admin.delete(lift).json()["lifted"], false);
    assert_eq!(
        check_attribute(&admin, "ip", "192.0.2.1")["reason"],
        "over_limit",
        "the state before the ban"
    );
    let by_hand = admin.delete("/v1/bans?rule=login&key=198.51.100.0/24").json();
    assert_eq!(by_hand["still_by_hand"], json!([1]));
    for (path, status) in [
        ("/v1/bans", 400),
        ("/v1/bans?rule=login", 400),
        ("/v1/bans?rule=none&key=ann", 404),
        ("/v1/bans?rule=api&key=ann&why=not", 400),
    ] {
        assert_eq!(admin.delete(path).status, status, "{path}");
    }
    clock.advance(Duration::from_secs(600));
    assert_eq!(bans(&admin).len(), 1, "only the ban by hand");
    server.stop();
}

/// Rules and data come from another service, but each limiter has its own ladder bans.
#[test]
fn a_follower_of_a_service_lists_and_lifts_its_own_bans() {
    let service = start_with("", |config| config.rules = None);
    let writer = AdminClient::with_all_rights(&service);
    writer.send("DELETE", "/v1/rules/sample", "", &[("if-match", "*")]);
    assert_eq!(writer.send("PUT", "/v1/rules/shop", RULES, &[]).status, 201);
    let url = format!("http://{}/v1/rules/bundle", service.http());
    let token = tollgate_server::secret::Secret::new(service.admin_token()).unwrap();
    let server = start_with("", |config| {
        let origin = tollgate_server::sources::Origin::url(&url).unwrap();
        config.rules = Some(origin.token(Some(token)));
    });
    let admin = AdminClient::with_all_rights(&server);
    while check_attribute(&admin, "user", "mallory")["allowed"] == true {}
    assert_eq!(bans(&admin)[0]["key"], "mallory");
    assert!(bans(&writer).is_empty(), "each has its own counters");
    assert_eq!(admin.delete("/v1/bans?rule=api&key=mallory").json()["lifted"], true);
    assert_eq!(admin.post("/v1/bans", &json!({})).status, 409);
    assert_eq!(admin.get("/v1/modes").status, 409);
    server.stop();
    service.stop();
}
