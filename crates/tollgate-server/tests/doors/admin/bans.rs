//! Bans made through the admin API: start, end, removal and invalid requests.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::testing::ManualClock;

use super::API;
use super::client::AdminClient;
use crate::support::start_with;

fn bans(admin: &AdminClient) -> Vec<Value> {
    admin.get("/v1/bans").json()["bans"].as_array().unwrap().clone()
}

#[test]
fn a_ban_ends_at_its_end_time_and_charges_nothing() {
    let clock = ManualClock::new();
    let server = start_with(API, |config| config.clock = Some((&clock).into()));
    let admin = AdminClient::with_all_rights(&server);
    let ban = json!({ "domain": "shop", "rule": "api", "key": "mallory", "for": "10m", "reason": "abuse" });
    let made = admin.post("/v1/bans", &ban).json();
    assert_eq!(made["until"], "2026-01-01T12:10:00Z");

    let refused = admin.check("mallory");
    assert_eq!((&refused["allowed"], &refused["code"]), (&json!(false), &json!(429)));
    assert_eq!(refused["retry_after_ms"], 600_000);
    assert!(admin.passes("ann"), "other users are not banned");
    clock.advance(Duration::from_nanos(599_999_999_999));
    assert_eq!(admin.check("mallory")["retry_after_ms"], 1, "never 0");
    assert_eq!(bans(&admin)[0]["rest_ms"], 1);
    clock.advance(Duration::from_nanos(1));
    assert!(bans(&admin).is_empty());
    // The ban charged nothing, so both requests of the limit are left.
    assert!(admin.passes("mallory") && admin.passes("mallory"));
    assert!(!admin.passes("mallory"));
    let metrics = admin.get("/metrics").text;
    let line = "tollgate_decisions_total{domain=\"shop\",rule=\"api\",outcome=\"banned\"} 2";
    assert!(metrics.contains(line), "{metrics}");
    server.stop();
}

#[test]
fn a_ban_can_be_lifted_and_is_audited() {
    let server = start_with(API, |_| {});
    let admin = AdminClient::with_all_rights(&server);
    let dry = admin.post("/v1/bans?dry_run=true", &json!({ "rule": "api", "key": "ann" }));
    assert_eq!((dry.status, &dry.json()["id"]), (200, &Value::Null));
    assert!(admin.passes("ann"));
    let made = admin.post("/v1/bans", &json!({ "rule": "api", "key": "ann" }));
    assert_eq!(made.status, 201, "{}", made.text);
    let refused = admin.check("ann");
    assert_eq!((&refused["allowed"], &refused["retry_after_ms"]), (&json!(false), &Value::Null));
    let id = made.json()["id"].clone();
    assert_eq!(admin.get(&format!("/v1/bans/{id}")).json()["key"], "ann");
    assert_eq!(admin.delete(&format!("/v1/bans/{id}")).status, 200);
    assert_eq!(admin.delete(&format!("/v1/bans/{id}")).status, 404);
    assert!(admin.passes("ann"));
    let audit = admin.get("/v1/audit?limit=2").json();
    assert_eq!(audit["entries"][0]["action"], "ban.remove");
    assert_eq!(audit["entries"][1]["action"], "ban.add");
    assert_eq!(audit["entries"][0]["who"], "admin");
    server.stop();
}

#[test]
fn an_invalid_ban_is_refused_with_a_hint() {
    let server = start_with(API, |_| {});
    let admin = AdminClient::with_all_rights(&server);
    for (ban, status, hint) in [
        (json!({ "rule": "apo", "key": "ann" }), 422, "did you mean `api`?"),
        (json!({ "domain": "shup", "rule": "api", "key": "ann" }), 422, "did you mean"),
        (json!({ "rule": "api", "key": "ann", "for": "soon" }), 400, "10m"),
        (json!({ "rule": "api", "key": "ann", "for": "-5m" }), 400, "10m"),
        (json!({ "rule": "api", "key": "ann", "until": "2001-01-01" }), 400, "in the past"),
        (json!({ "rule": "api", "key": "ann", "until": "never" }), 400, "2027-01-01"),
        (json!({ "rule": "api", "key": "ann", "for": "1m", "until": "2901-01-01" }), 400, "both"),
        (json!({ "rule": "api" }), 400, "key"),
        (json!({ "rule": "api", "key": "ann", "forever": true }), 400, "forever"),
    ] {
        let refused = admin.post("/v1/bans", &ban);
        assert_eq!(refused.status, status, "{ban}: {}", refused.text);
        assert!(refused.text.contains(hint), "{ban}: {}", refused.text);
    }
    assert!(bans(&admin).is_empty());
    server.stop();
}

/// A machine that starts two hours behind, whose clock is then corrected. The ends of bans are dates, so
/// a server that is started again later reads the same ones.
#[test]
fn bans_follow_a_wall_clock_that_is_corrected() {
    let clock = ManualClock::new();
    let server = start_with(API, |config| config.clock = Some((&clock).into()));
    let admin = AdminClient::with_all_rights(&server);
    let hours = |n: u64| Duration::from_secs(n * 3_600);
    let ban = |key: &str, field: &str, end: &str| {
        let ban = json!({ "domain": "shop", "rule": "api", "key": key, field: end });
        admin.post("/v1/bans", &ban).json()
    };
    ban("early", "until", "2026-01-01T15:00:00Z");
    assert_eq!(admin.check("early")["retry_after_ms"], 3 * 3_600_000);
    clock.step_wall(hours(2));
    assert_eq!(admin.check("early")["retry_after_ms"], 3_600_000, "its end is a date");
    let late = ban("late", "for", "10m");
    assert_eq!(late["until"], "2026-01-01T14:10:00Z", "what is stored is the date");
    assert_eq!(admin.check("late")["retry_after_ms"], 600_000);
    clock.advance(Duration::from_secs(600));
    assert!(admin.passes("late"));
    assert_eq!(bans(&admin)[0]["rest_ms"], 3_000_000);
    clock.step_wall_back(hours(1));
    assert_eq!(bans(&admin)[0]["rest_ms"], 6_600_000);
    clock.step_wall(hours(2));
    assert!(bans(&admin).is_empty() && admin.passes("early"));
    server.stop();
}
