//! Redis stops answering, or was never there: what the rules say happens, is seen, and ends by
//! itself.
#![allow(clippy::disallowed_methods, reason = "measures how long real servers take")]

use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_rig::{Redis, until};

use crate::support::{start, until_resting, until_well};

/// What an answer may take: much, on a machine that has other things to do.
const TIMEOUT: Duration = Duration::from_millis(500);

fn rules(on_error: &str) -> String {
    format!("rules: [{{ name: api, per: user, limit: 12/h fixed, on_error: {on_error} }}]")
}

#[test]
fn a_redis_that_stands_still_costs_its_time_out_once_and_then_nothing() {
    let redis = Redis::start();
    let server = start(&rules("allow"), &redis.url(), TIMEOUT);
    assert_eq!(server.pass("ann", 2), 2);
    redis.stop();
    let mut http = server.http();
    let before = Instant::now();
    let first = http.check("ann");
    assert_eq!(first["allowed"], true, "{first}");
    assert!(before.elapsed() >= TIMEOUT / 2, "somebody found out");
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let before = Instant::now();
            assert_eq!(http.check("ann")["allowed"], true);
            before.elapsed()
        })
        .collect();
    times.sort();
    assert!(times[50] < TIMEOUT / 10, "half of them took {:?} and more", times[50]);

    let (status, ready) = server.ready();
    assert_eq!((status, &ready["ready"]), (200, &json!(true)), "others are no better off");
    let store = &ready["store"];
    assert_eq!(store["state"], "resting", "{store}");
    assert!(store["error"].as_str().unwrap().contains("did not answer within 500ms"), "{store}");
    assert!(store["since"].as_str().unwrap().ends_with('Z'), "{store}");
    assert_eq!(server.metric("tollgate_store_resting"), 1.0);
    assert_eq!(server.metric("tollgate_failure_mode_total{mode=\"allow\"}"), 102.0);
    assert!(server.metric("tollgate_store_errors_total{kind=\"timeout\"}") >= 1.0);
    assert!(server.metric("tollgate_store_errors_total{kind=\"resting\"}") >= 90.0);

    redis.cont();
    until_well(&server);
    assert_eq!(server.pass("ann", 20), 10, "what passed meanwhile was not counted, and not lost");
    assert_eq!(server.metric("tollgate_failure_mode_total{mode=\"allow\"}"), 102.0);
}

#[test]
fn who_must_be_counted_is_refused() {
    let redis = Redis::start();
    let server = start(&rules("deny"), &redis.url(), TIMEOUT);
    assert_eq!(server.pass("ann", 2), 2);
    redis.kill();
    until_resting(&server);
    let body = json!({ "attributes": { "user": "ann" } });
    let (status, problem) = server.http().post("/v1/check?status=true", &body);
    assert_eq!(status, 503, "{problem}");
    let (status, decision) = server.http().post("/v1/check", &body);
    assert_eq!(
        (status, &decision["allowed"], &decision["code"]),
        (200, &json!(false), &json!(503))
    );
    let (status, ready) = server.ready();
    assert_eq!((status, &ready["ready"]), (503, &json!(false)), "nothing passes here");
    assert!(ready["why"].as_str().unwrap().contains("every rule refuses"), "{ready}");
    assert!(server.metric("tollgate_failure_mode_total{mode=\"deny\"}") >= 2.0);
    // Who brings a limit along decides for itself.
    let limit = json!({ "key": "mail", "limit": "3/h" });
    let (status, problem) = server.http().post("/v1/limit", &limit);
    assert_eq!((status, &problem["type"]), (503, &json!("urn:tollgate:store-unavailable")));
    let error = server.resp().command(&["CL.THROTTLE", "mail", "1", "1", "60"]).unwrap_err();
    assert!(error.to_string().starts_with("ERR "), "{error}");
    redis.restart();
    until_well(&server);
    assert_eq!(server.ready().0, 200);
    assert_eq!(server.pass("ann", 1), 1);
}

#[test]
fn a_share_is_enforced_and_handed_back_without_a_spike() {
    let redis = Redis::start();
    let server = start(&rules("local"), &redis.url(), TIMEOUT);
    assert_eq!(server.pass("ann", 3), 3);
    redis.stop();
    until_resting(&server);
    // One node: its share is all of it.
    assert_eq!(server.pass("bob", 5), 5);
    assert_eq!(server.pass("cyd", 40), 12);
    let denied = server.http().check("cyd");
    assert_eq!((&denied["code"], &denied["rule"]), (&json!(429), &json!("api")), "{denied}");
    assert!(server.metric("tollgate_failure_mode_total{mode=\"local\"}") >= 46.0);
    redis.cont();
    until_well(&server);
    assert_eq!(server.pass("ann", 40), 9);
    assert_eq!(server.pass("bob", 40), 12 - 5);
    assert_eq!(server.pass("cyd", 40), 0);
}

#[test]
fn a_server_starts_without_its_redis_and_finds_it_later() {
    let redis = Redis::start();
    redis.kill();
    let server = start(&rules("local"), &redis.url(), TIMEOUT);
    let (status, ready) = server.ready();
    assert_eq!((status, &ready["store"]["state"]), (200, &json!("resting")), "{ready}");
    assert_eq!(server.pass("ann", 20), 12);
    let strict = start(&rules("deny"), &redis.url(), TIMEOUT);
    assert_eq!((strict.ready().0, strict.pass("ann", 1)), (503, 0));
    redis.restart();
    until_well(&server);
    until_well(&strict);
    assert_eq!(server.pass("ann", 20), 0, "what was let through was charged");
    assert_eq!((strict.ready().0, strict.pass("ann", 1)), (200, 0));
    assert_eq!(strict.pass("bob", 20), 12);
}

/// Envoy's service answers an error, and Envoy decides what to make of it.
#[test]
fn who_asks_in_envoys_words_gets_an_error() {
    let redis = Redis::start();
    let rules = "
domain: mail
descriptors:
  - key: to
    rate_limit: { unit: hour, requests_per_unit: 2 }
";
    let server = start(rules, &redis.url(), TIMEOUT);
    let body = json!({
        "domain": "mail",
        "descriptors": [{ "entries": [{ "key": "to", "value": "ann" }] }],
    });
    let ask = || server.http().send("POST", "/json", &body.to_string()).0;
    assert_eq!([ask(), ask(), ask()], [200, 200, 429]);
    redis.kill();
    until("it is left alone", || ask() == 400 && server.store_state() == "resting");
    assert_eq!((ask(), server.ready().0), (400, 200));
    assert!(server.metric("tollgate_store_errors_total{kind=\"resting\"}") >= 1.0);
    redis.restart();
    until("it counts again", || ask() == 200);
}
