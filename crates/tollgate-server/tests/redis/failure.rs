//! Failures of Redis: rules choose what happens, metrics report it, and recovery is automatic.
#![allow(clippy::disallowed_methods, reason = "measures how long real servers take")]

use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_rig::{Redis, until};

use crate::support::{start, until_resting, until_well};

/// The timeout of the store, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_millis(500);

fn rules(on_error: &str) -> String {
    format!(
        "attributes: [user]\nrules: [{{ name: api, per: user, limit: 12/h fixed first_hit, on_error: {on_error} }}]"
    )
}

#[test]
fn a_stalled_redis_costs_one_timeout_and_then_nothing() {
    let redis = Redis::start();
    let server = start(&rules("allow"), &redis.url(), TIMEOUT);
    assert_eq!(server.pass("ann", 2), 2);
    redis.stop();
    let mut http = server.http();
    let before = Instant::now();
    let first = http.check("ann");
    assert_eq!(first["allowed"], true, "{first}");
    assert!(before.elapsed() >= TIMEOUT / 2, "the first request did not wait for Redis");
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let before = Instant::now();
            assert_eq!(http.check("ann")["allowed"], true);
            before.elapsed()
        })
        .collect();
    times.sort();
    assert!(times[50] < TIMEOUT / 10, "the median was {:?}", times[50]);

    let (status, ready) = server.ready();
    assert_eq!((status, &ready["ready"]), (200, &json!(true)), "other servers would fail too");
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
    assert_eq!(server.pass("ann", 20), 10, "requests during the failure are not counted");
    assert_eq!(server.metric("tollgate_failure_mode_total{mode=\"allow\"}"), 102.0);
}

#[test]
fn rules_with_on_error_deny_refuse_while_redis_is_down() {
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
    assert_eq!((status, &ready["ready"]), (503, &json!(false)), "every request is refused");
    assert!(ready["why"].as_str().unwrap().contains("every rule refuses"), "{ready}");
    assert!(server.metric("tollgate_failure_mode_total{mode=\"deny\"}") >= 2.0);
    // Calls with an inline limit get an error, because no rule chooses a failure mode.
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
fn a_local_share_is_enforced_and_charged_after_recovery() {
    let redis = Redis::start();
    let server = start(&rules("local"), &redis.url(), TIMEOUT);
    assert_eq!(server.pass("ann", 3), 3);
    redis.stop();
    until_resting(&server);
    // The share of the only node is the whole limit.
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
fn a_server_starts_without_redis_and_connects_later() {
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
    assert_eq!(server.pass("ann", 20), 0, "requests allowed during the failure are charged");
    assert_eq!((strict.ready().0, strict.pass("ann", 1)), (200, 0));
    assert_eq!(strict.pass("bob", 20), 12);
}

/// The service answers with an error, so that the failure mode of Envoy applies.
#[test]
fn envoy_requests_get_an_error_while_redis_is_down() {
    let redis = Redis::start();
    let rules = "
domain: mail
descriptors:
  - key: to
    rate_limit: { unit: year, unit_multiplier: 100, requests_per_unit: 2 }
";
    let server = start(rules, &redis.url(), TIMEOUT);
    let body = json!({
        "domain": "mail",
        "descriptors": [{ "entries": [{ "key": "to", "value": "ann" }] }],
    });
    let send = || server.http().send("POST", "/json", &body.to_string()).0;
    assert_eq!([send(), send(), send()], [200, 200, 429]);
    redis.kill();
    until("the store is resting", || send() == 400 && server.store_state() == "resting");
    assert_eq!((send(), server.ready().0), (400, 200));
    assert!(server.metric("tollgate_store_errors_total{kind=\"resting\"}") >= 1.0);
    redis.restart();
    until("the store counts again", || send() == 200);
}
