//! Settlements while Redis is down.

use serde_json::{Value, json};
use tollgate_rig::{Proxy, Redis, until};

use crate::support::{LONG_TIMEOUT, TestServer, start, until_resting, until_well};

const RULES: &str = "
attributes: [response.tokens, user]
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
    let spent = |tokens| json!({ "outcome": { "response": { "tokens": tokens } } });
    for (id, tokens) in [(&over, 350), (&under, 50)] {
        assert_eq!(settle(&server, id, &spent(tokens)).0, 503);
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

    // The client repeats both calls, which change what was not changed before.
    for (id, tokens) in [(&over, 350), (&under, 50)] {
        let (status, settled) = settle(&server, id, &spent(tokens));
        assert_eq!(status, 200, "{settled}");
        assert_eq!(settle(&server, id, &spent(tokens)), (200, settled), "the response was lost");
        assert_eq!(settle(&server, id, &spent(1)).0, 404, "only once");
    }
    let left = left_after_one(&server, "ann");
    assert!((647..=650).contains(&left), "the overrun is charged once: {left}");
    let left = left_after_one(&server, "bob");
    assert!((948..=951).contains(&left), "50 and 2 of 1,000 are charged: {left}");
    assert_eq!((settled("owed"), settled("refunded")), (1.0, 1.0));
}

#[test]
fn a_failed_cancellation_can_be_repeated() {
    let redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = start(RULES, &redis.url(), LONG_TIMEOUT);
    let inline_limit = json!({ "key": "mail", "limit": "1000/day", "amount": 100 });
    let (_, reservation) = server.http().post("/v1/reserve", &inline_limit);
    let inline_id = reservation["id"].as_str().unwrap().to_owned();
    let paths = [reserve(&server, "ann"), inline_id].map(|id| format!("/v1/reservations/{id}"));
    let cancel = |path: &str| server.http().send("DELETE", path, "");
    redis.kill();
    until_resting(&server);
    for path in &paths {
        assert_eq!(cancel(path).0, 503);
    }
    redis.restart();
    until_well(&server);
    for path in &paths {
        let cancelled = cancel(path);
        assert_eq!(cancelled.0, 200, "{}", cancelled.1);
        let decision: Value = serde_json::from_str(&cancelled.1).unwrap();
        assert_eq!(decision["limits"][0]["remaining"], 1_000, "{decision}");
        assert_eq!(cancel(path), cancelled, "its response was lost");
    }
}

/// A refund whose reply is lost may have been made, so it is not made again; the client can ask.
#[test]
fn a_settlement_without_a_reply_is_made_at_most_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(redis.port());
    let server = start(RULES, &proxy.url(), std::time::Duration::from_millis(300));
    let reserve = |body: Value| {
        let (_, reservation) = server.http().post("/v1/reserve", &body);
        reservation["id"].as_str().unwrap_or_else(|| panic!("{reservation}")).to_owned()
    };
    let ruled = json!({ "attributes": { "user": "ann", "body.max_tokens": 400 } });
    let inline_limit = json!({ "key": "mail", "limit": "1000/day", "amount": 400 });
    for (id, spent) in [
        (reserve(ruled), json!({ "outcome": { "response": { "tokens": 100 } } })),
        (reserve(inline_limit), json!({ "amount": 100 })),
    ] {
        proxy.swallow_replies(true);
        assert_eq!(settle(&server, &id, &spent).0, 503);
        proxy.swallow_replies(false);
        until_well(&server);
        let mut settled = (503, Value::Null);
        until("a reply", || {
            settled = settle(&server, &id, &spent);
            settled.0 != 503
        });
        assert_eq!(settled.0, 200, "{settled:?}");
        let left = settled.1["limits"][0]["remaining"].as_u64().unwrap();
        assert!(left <= 901, "refunded at most once: {left}");
    }
}

/// The server remembers no outcome of an inline limit; the client repeats the call.
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
    assert_eq!(settle(&server, id, &spent), (200, settled), "a repeated call changes nothing");
}
