//! Modes that are set at run time, and schedules that begin and end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::testing::ManualClock;

use super::API;
use super::client::AdminClient;
use crate::support::start_with;

fn modes(admin: &AdminClient) -> Vec<Value> {
    admin.get("/v1/modes").json()["modes"].as_array().unwrap().clone()
}

#[test]
fn a_mode_is_set_replaced_cleared_and_audited() {
    let clock = ManualClock::new();
    let server = start_with(API, |config| config.clock = Some((&clock).into()));
    let admin = AdminClient::with_all_rights(&server);
    assert!(admin.passes("ann") && admin.passes("ann") && !admin.passes("ann"));
    let dry = admin.post("/v1/modes?dry_run=true", &json!({ "rule": "*", "mode": "off" }));
    assert_eq!((dry.status, admin.passes("ann")), (200, false));

    let shadow = json!({ "rule": "api", "mode": "shadow", "reason": "too tight" });
    assert_eq!(admin.post("/v1/modes", &shadow).status, 201);
    assert!(admin.passes("ann"));
    assert_eq!(admin.check("ann")["limits"][0]["mode"], "shadow");
    let off = admin.post("/v1/modes", &json!({ "rule": "api", "mode": "off", "for": "10m" }));
    assert_eq!((off.status, &off.json()["until"]), (201, &json!("2026-01-01T12:10:00Z")));
    assert_eq!(modes(&admin).len(), 1, "one rule has one mode");
    assert_eq!(modes(&admin)[0]["rest_ms"], 600_000);
    assert_eq!(admin.check("ann")["limits"], json!([]));
    clock.advance(Duration::from_secs(600));
    assert!(!admin.passes("ann") && modes(&admin).is_empty());

    let kill = admin.post("/v1/modes", &json!({ "rule": "*", "mode": "off" })).json();
    assert!((0..5).all(|_| admin.passes("ann")));
    let id = &kill["id"];
    assert_eq!(admin.get(&format!("/v1/modes/{id}")).json()["rule"], "*");
    assert_eq!(admin.get("/v1/rules/bundle").json()["data"]["modes"][0]["mode"], "off");
    assert_eq!(admin.delete(&format!("/v1/modes/{id}")).status, 200);
    assert!(!admin.passes("ann"));
    let audit = admin.get("/v1/audit").json();
    let entries = audit["entries"].as_array().unwrap();
    let actions: Vec<&str> = entries.iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["mode.remove", "mode.set", "mode.set", "mode.set"]);
    assert_eq!(entries[0]["who"], "admin");
    for (wrong, status, hint) in [
        (json!({ "rule": "apo", "mode": "off" }), 422, "did you mean `api`?"),
        (json!({ "rule": "api", "mode": "on" }), 422, "use `enforce`"),
        (json!({ "rule": "api", "mode": "off", "for": "soon" }), 400, "10m"),
        (json!({ "rule": "api" }), 400, "mode"),
    ] {
        let refused = admin.post("/v1/modes", &wrong);
        assert_eq!(refused.status, status, "{wrong}: {}", refused.text);
        assert!(refused.text.contains(hint), "{wrong}: {}", refused.text);
    }
    server.stop();
}

/// Changes modes 200 times under load: every request is decided by the old or the new mode.
#[test]
fn changing_modes_loses_no_request() {
    let rules = "domain: shop\nrules: [{ name: all, limit: 1/day fixed first_hit }]\n";
    let server = start_with(rules, |_| {});
    let (done, passed, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    AdminClient::with_all_rights(&server).check("ann");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let admin = AdminClient::with_all_rights(&server);
                while !done.load(Ordering::Relaxed) {
                    let response = admin.check("ann");
                    let outcome = match response["allowed"].as_bool().unwrap() {
                        true => &passed,
                        false => &refused,
                    };
                    outcome.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let admin = AdminClient::with_all_rights(&server);
        for flip in 0..200 {
            let mode = ["off", "enforce", "shadow", "enforce 50%"][flip % 4];
            let rule = if flip % 8 < 4 { "*" } else { "all" };
            let set = admin.post("/v1/modes", &json!({ "rule": rule, "mode": mode }));
            assert_eq!(set.status, 201, "{}", set.text);
        }
        done.store(true, Ordering::Relaxed);
    });
    let counts = [&passed, &refused].map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    server.stop();
}

/// Checks that a rule with office hours begins and ends on the minute.
#[test]
fn a_schedule_begins_and_ends() {
    let clock = ManualClock::new(); // noon on a Thursday, one o'clock in Berlin
    let rules = "
domain: shop
attributes: [user]
rules:
  - { name: api, per: user, limit: 1/h fixed, during: 'mon-fri 14:00-15:00 zone Europe/Berlin' }
";
    let server = start_with(rules, |config| config.clock = Some((&clock).into()));
    let admin = AdminClient::with_all_rights(&server);
    let limits = || admin.check("ann")["limits"].as_array().unwrap().len();
    assert_eq!(limits(), 0);
    clock.advance(Duration::from_secs(3600) - Duration::from_nanos(1));
    assert_eq!(limits(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!((limits(), admin.passes("ann")), (1, false));
    clock.advance(Duration::from_secs(3600) - Duration::from_nanos(1));
    assert!(!admin.passes("ann"));
    clock.advance(Duration::from_nanos(1));
    assert!(admin.passes("ann") && limits() == 0);
    clock.advance(Duration::from_secs(23 * 3600));
    assert_eq!(limits(), 1, "again on the next day");
    clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(limits(), 0, "not on Saturday");
    server.stop();
}
