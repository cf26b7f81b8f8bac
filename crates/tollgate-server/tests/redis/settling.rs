//! What a call cost is known only when Redis is gone.

use serde_json::{Value, json};
use tollgate_rig::{Redis, until};

use crate::support::{PATIENT, Running, start};

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

fn settle(server: &Running, id: &str, tokens: u64) {
    let outcome = json!({ "outcome": { "response": { "tokens": tokens } } });
    server.http().post(&format!("/v1/reservations/{id}/settle"), &outcome);
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
    until("it is left alone", || {
        server.http().check("somebody");
        server.store_state() == "resting"
    });
    settle(&server, &over, 350);
    settle(&server, &under, 50);
    let settled = |outcome: &str| {
        let labels = format!("domain=\"default\",rule=\"tokens\",outcome=\"{outcome}\"");
        server.metric(&format!("tollgate_settled_total{{{labels}}}"))
    };
    assert_eq!((settled("owed"), settled("kept")), (1.0, 1.0));
    redis.restart();
    until("it is well again", || server.store_state() == "well");
    // Of a day's tokens one comes back every 86 seconds.
    let left = left_after_one(&server, "ann");
    assert!((649..=651).contains(&left), "100 and 250 and 1 of 1,000: {left}");
    let left = left_after_one(&server, "ann");
    assert!((648..=650).contains(&left), "once: {left}");
    let left = left_after_one(&server, "bob");
    assert!((899..=901).contains(&left), "what was not needed stays charged: {left}");
}
