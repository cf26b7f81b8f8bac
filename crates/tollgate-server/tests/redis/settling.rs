//! What a call cost is known only when Redis is gone.

use serde_json::{Value, json};
use tollgate_rig::Redis;

use crate::support::{PATIENT, Running, start, until_resting, until_well};

const RULES: &str = "
rules:
  - name: tokens
    per: user
    limit: 1000 tokens/day
    cost: { reserve: body.max_tokens, settle: response.tokens }
    on_error: local
";

fn reserve(server: &Running, user: &str) -> String {
    let ask = json!({ "attributes": { "user": user, "body.max_tokens": 100 } });
    let (status, held) = server.http().post("/v1/reserve", &ask);
    assert_eq!((status, &held["allowed"]), (200, &json!(true)), "{held}");
    held["id"].as_str().unwrap().to_owned()
}

fn settle(server: &Running, id: &str, truth: &Value) -> (u16, Value) {
    server.http().post(&format!("/v1/reservations/{id}/settle"), truth)
}

/// What is left after a request that costs nothing much.
fn left_after_one(server: &Running, user: &str) -> u64 {
    let ask = json!({ "attributes": { "user": user, "body.max_tokens": 1 } });
    let (_, decision): (u16, Value) = server.http().post("/v1/check", &ask);
    decision["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{decision}"))
}

#[test]
fn an_overrun_is_charged_to_a_redis_that_was_restarted_meanwhile() {
    let redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = start(RULES, &redis.url(), PATIENT);
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
    // Of a day's tokens one comes back every 86 seconds.
    let left = left_after_one(&server, "ann");
    assert!((649..=651).contains(&left), "100 and 250 and 1 of 1,000: {left}");
    let left = left_after_one(&server, "ann");
    assert!((648..=650).contains(&left), "once: {left}");
    let left = left_after_one(&server, "bob");
    assert!((899..=901).contains(&left), "what was not needed stays charged: {left}");
}

/// Who brings a limit along is told, and settles again: nothing is remembered of it here.
#[test]
fn what_redis_did_not_take_can_be_settled_again() {
    let redis = Redis::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let server = start(RULES, &redis.url(), PATIENT);
    let ask = json!({ "key": "mail", "limit": "1000/day", "amount": 100 });
    let (_, held) = server.http().post("/v1/reserve", &ask);
    let id = held["id"].as_str().unwrap_or_else(|| panic!("{held}"));
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
    assert_eq!(settle(&server, id, &spent).0, 404, "once");
}
