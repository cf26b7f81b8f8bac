//! Modes that are set while running, and schedules that begin and end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::testing::ManualClock;

use super::API;
use super::client::Operator;
use crate::support::start_with;

fn modes(operator: &Operator) -> Vec<Value> {
    operator.get("/v1/modes").json()["modes"].as_array().unwrap().clone()
}

#[test]
fn a_mode_is_set_replaced_and_cleared_and_is_in_the_audit() {
    let clock = ManualClock::new();
    let server = start_with(API, |config| config.clock = Some((&clock).into()));
    let operator = Operator::of(&server);
    assert!(operator.passes("ann") && operator.passes("ann") && !operator.passes("ann"));
    let dry = operator.post("/v1/modes?dry_run=true", &json!({ "rule": "*", "mode": "off" }));
    assert_eq!((dry.status, operator.passes("ann")), (200, false));

    let shadow = json!({ "rule": "api", "mode": "shadow", "reason": "too tight" });
    assert_eq!(operator.post("/v1/modes", &shadow).status, 201);
    assert!(operator.passes("ann"));
    assert_eq!(operator.check("ann")["limits"][0]["mode"], "shadow");
    let off = operator.post("/v1/modes", &json!({ "rule": "api", "mode": "off", "for": "10m" }));
    assert_eq!((off.status, &off.json()["until"]), (201, &json!("2026-01-01T12:10:00Z")));
    assert_eq!(modes(&operator).len(), 1, "one rule has one mode");
    assert_eq!(modes(&operator)[0]["rest_ms"], 600_000);
    assert_eq!(operator.check("ann")["limits"], json!([]));
    clock.advance(Duration::from_secs(600));
    assert!(!operator.passes("ann") && modes(&operator).is_empty());

    let kill = operator.post("/v1/modes", &json!({ "rule": "*", "mode": "off" })).json();
    assert!((0..5).all(|_| operator.passes("ann")));
    let id = &kill["id"];
    assert_eq!(operator.get(&format!("/v1/modes/{id}")).json()["rule"], "*");
    assert_eq!(operator.get("/v1/rules/bundle").json()["data"]["modes"][0]["mode"], "off");
    assert_eq!(operator.delete(&format!("/v1/modes/{id}")).status, 200);
    assert!(!operator.passes("ann"));
    let audit = operator.get("/v1/audit").json();
    let entries = audit["entries"].as_array().unwrap();
    let actions: Vec<&str> = entries.iter().map(|e| e["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["mode.remove", "mode.set", "mode.set", "mode.set"]);
    assert_eq!(entries[0]["who"], "admin");
    for (wrong, status, says) in [
        (json!({ "rule": "apo", "mode": "off" }), 422, "did you mean `api`?"),
        (json!({ "rule": "api", "mode": "on" }), 422, "use `enforce`"),
        (json!({ "rule": "api", "mode": "off", "for": "soon" }), 400, "10m"),
        (json!({ "rule": "api" }), 400, "mode"),
    ] {
        let refused = operator.post("/v1/modes", &wrong);
        assert_eq!(refused.status, status, "{wrong}: {}", refused.text);
        assert!(refused.text.contains(says), "{wrong}: {}", refused.text);
    }
    server.stop();
}

/// Two hundred changes while others ask: every request is answered, by one mode or the other.
#[test]
fn changing_modes_loses_no_request() {
    let rules = "domain: shop\nrules: [{ name: all, limit: 1/day fixed }]\n";
    let server = start_with(rules, |_| {});
    let (done, passed, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    Operator::of(&server).check("ann");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let operator = Operator::of(&server);
                while !done.load(Ordering::Relaxed) {
                    let answer = operator.check("ann");
                    let outcome = match answer["allowed"].as_bool().unwrap() {
                        true => &passed,
                        false => &refused,
                    };
                    outcome.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let operator = Operator::of(&server);
        for flip in 0..200 {
            let mode = ["off", "enforce", "shadow", "enforce 50%"][flip % 4];
            let rule = if flip % 8 < 4 { "*" } else { "all" };
            let set = operator.post("/v1/modes", &json!({ "rule": rule, "mode": mode }));
            assert_eq!(set.status, 201, "{}", set.text);
        }
        done.store(true, Ordering::Relaxed);
    });
    let counts = [&passed, &refused].map(|count| count.load(Ordering::Relaxed));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    server.stop();
}

/// Office hours: the rule begins and ends on the minute.
#[test]
fn a_schedule_begins_and_ends() {
    let clock = ManualClock::new(); // noon on a Thursday, one o'clock in Berlin
    let rules = "
domain: shop
rules:
  - { name: api, per: user, limit: 1/h fixed, during: 'mon-fri 14:00-15:00 zone Europe/Berlin' }
";
    let server = start_with(rules, |config| config.clock = Some((&clock).into()));
    let operator = Operator::of(&server);
    let limits = || operator.check("ann")["limits"].as_array().unwrap().len();
    assert_eq!(limits(), 0);
    clock.advance(Duration::from_secs(3600) - Duration::from_nanos(1));
    assert_eq!(limits(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!((limits(), operator.passes("ann")), (1, false));
    clock.advance(Duration::from_secs(3600) - Duration::from_nanos(1));
    assert!(!operator.passes("ann"));
    clock.advance(Duration::from_nanos(1));
    assert!(operator.passes("ann") && limits() == 0);
    clock.advance(Duration::from_secs(23 * 3600));
    assert_eq!(limits(), 1, "and the next day again");
    clock.advance(Duration::from_secs(24 * 3600));
    assert_eq!(limits(), 0, "not on Saturday");
    server.stop();
}
