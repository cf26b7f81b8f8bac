//! Settlements while Redis is down.

use serde_json::{Value, json};
use tollgate_rig::Redis;

use crate::support::{LONG_TIMEOUT, TestServer, start, until_resting, until_well};

const RULES: &str = "
rules:
  - name: tokens
    per: user
    limit: 1000 tokens/day
    cost: { reserve: body.max_tokens, settle: response.tokens }
    on_error: local
";

fn reserve(server: &TestServer, user: &str) -> String {
    let body = json!({ "attributes": { "user": user, "body.max_tokens": 100 } });
    let (status, reservation) = server.http().post("/v1/reserve", &body);
    assert_eq!((status, &reservation["allowed"]), (200, &json!(true)), "{reservation}");
    reservation["id"].as_str().unwrap().to_owned()
}

fn settle(server: &TestServer, id: &str, result: &Value) -> (u16, Value) {
    server.http().post(&format!("/v1/reservations/{id}/settle"), result)
}

/// Sends a request that costs 1; returns the remaining tokens.
fn left_after_one(server: &TestServer, user: &str) -> u64 {
    let body = json!({ "attributes": { "user": user, "body.max_tokens": 1 } });
    let (_, decision): (u16, Value) = server.http().post("/v1/check", &body);
    decision["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{decision}"))
}

#[test]
fn an_overrun_is_charged_after_a_restart_of_redis() {
    let redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = start(RULES, &redis.url(), LONG_TIMEOUT);
    let (over, under) = (reserve(&server, "ann"), reserve(&server, "bob"));
    redis.kill();
    until_resting(&server);
    for (id, tokens) in [(over, 350), (under, 50)] {
        settle(&server, &id, &json!({ "outcome": { "response": { "tokens": tokens } } }));
    }
    let settled = |outcome: &str| {
        let labels = format!("domain=\"default\",rule=\"tokens\",outcome=\"{outcome}\"");
        server.metric(&format!("tollgate_settled_total{{{labels}}}"))
    };
    assert_eq!((settled("owed"), settled("kept")), (1.0, 1.0));
    redis.restart();
    until_well(&server);
    // One token is refilled every 86 seconds.
    let left = left_after_one(&server, "ann");
    assert!((649..=651).contains(&left), "100, 250 and 1 of 1,000 are charged: {left}");
    let left = left_after_one(&server, "ann");
    assert!((648..=650).contains(&left), "the overrun is charged once: {left}");
    let left = left_after_one(&server, "bob");
    assert!((899..=901).contains(&left), "the unused part stays charged: {left}");
}

/// The server stores no failed settlement of an inline limit; the client repeats it.
#[test]
fn a_failed_settlement_of_an_inline_limit_can_be_repeated() {
    let redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = start(RULES, &redis.url(), LONG_TIMEOUT);
    let body = json!({ "key": "mail", "limit": "1000/day", "amount": 100 });
    let (_, reservation) = server.http().post("/v1/reserve", &body);
    let id = reservation["id"].as_str().unwrap_or_else(|| panic!("{reservation}"));
    redis.kill();
    until_resting(&server);
    let spent = json!({ "amount": 350 });
    assert_eq!(settle(&server, id, &spent).0, 503);
    assert_eq!(settle(&server, id, &spent).0, 503);
    redis.restart();
    until_well(&server);
    let (status, settled) = settle(&server, id, &spent);
    assert_eq!(status, 200, "{settled}");
    let left = settled["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{settled}"));
    assert!((650..=652).contains(&left), "{left}");
    assert_eq!(settle(&server, id, &spent).0, 404, "only once");
}
