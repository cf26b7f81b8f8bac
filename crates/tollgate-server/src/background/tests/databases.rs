//! Threads that own a file: a job that panics fails, and the next one runs.

use tollgate_rig::until;

use super::harness::{start, start_with};
use crate::background::BackgroundWorker;

#[test]
fn snapshots_go_on_after_a_panic() {
    let server = start();
    server.break_worker(BackgroundWorker::Snapshots, 2, |_| {});
    let written = server.metric("tollgate_snapshots_total");
    until("a snapshot is written again", || {
        server.call("POST", "/v1/limit", r#"{"key":"ann","limit":"5/h"}"#);
        server.metric("tollgate_snapshots_total") > written
    });
    server.stop();
}

#[test]
fn the_rules_file_is_followed_after_a_panic() {
    let server = start();
    let rules = server.folder.path().join("rules.yaml");
    let write = |name: &str| {
        let text = format!("rules: [{{ name: {name}, limit: 1000/s }}]");
        std::fs::write(&rules, text).unwrap();
        server.reload();
    };
    let before = server.ready()["rules"]["version"].clone();
    server.break_worker(BackgroundWorker::RulesSource, 1, |_| write("other"));
    write("another");
    until("the new rules are active", || {
        let rules = server.ready()["rules"].clone();
        rules["version"] != before && rules["last_error"].is_null()
    });
    server.stop();
}

#[test]
fn the_rules_service_goes_on_after_a_panic() {
    let server = start_with(|config| config.rules = None);
    server.break_worker(BackgroundWorker::RulesDatabase, 1, |server| {
        let answer = server.call("GET", "/v1/rules", "");
        assert_eq!(answer.status(), 503, "{}", answer.text());
    });
    let answer = server.call("GET", "/v1/rules", "");
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let rules = "rules: [{ name: all, limit: 1000/s }]";
    let answer = server.call("PUT", "/v1/rules/shop", rules);
    assert!(answer.status() < 300, "{}", answer.text());
    server.stop();
}
