//! Metrics are correct, well-formed and bounded.

use std::io::Write;
use std::process::{Command, Stdio};

use super::API;
use super::client::AdminClient;
use crate::support::{start, start_with};

/// Checks the metrics with promtool.
fn promtool(text: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is installed: cargo xtask components");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}\n{text}");
}

fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

#[test]
fn metrics_count_decisions_keys_and_connections() {
    let server = start_with(API, |config| config.max_keys = Some(3));
    let admin = AdminClient::with_all_rights(&server);
    for user in ["ann", "ann", "ann", "bob", "carol", "dave", "erin"] {
        admin.check(user);
    }
    let shop = "tollgate_decisions_total{domain=\"shop\",rule=\"api\"";
    let text = admin.get("/metrics").text;
    assert_eq!(value(&text, &format!("{shop},outcome=\"allowed\"}}")), Some(6.0), "{text}");
    assert_eq!(value(&text, &format!("{shop},outcome=\"denied\"}}")), Some(1.0));
    assert_eq!(value(&text, "tollgate_decision_seconds_count{door=\"http\"}"), Some(7.0));
    assert_eq!(value(&text, "tollgate_keys"), Some(3.0));
    assert_eq!(value(&text, "tollgate_evictions_total"), Some(2.0));
    // The smallest table of token buckets.
    assert_eq!(value(&text, "tollgate_memory_bytes"), Some(1048576.0));
    assert_eq!(value(&text, "tollgate_overshoot_bound"), Some(0.0));
    assert_eq!(value(&text, "tollgate_rules_reload_errors_total"), Some(0.0));
    assert!(value(&text, "tollgate_rules_version").unwrap() >= 1.0);
    assert!(value(&text, "tollgate_connections{door=\"http\"}").unwrap() >= 1.0);
    assert_eq!(value(&text, "tollgate_connections{door=\"resp\"}"), Some(0.0));
    for name in [
        "tollgate_store_seconds",
        "tollgate_store_errors_total",
        "tollgate_failure_mode_total",
        "tollgate_queue_depth",
        "tollgate_queue_wait_seconds",
        "tollgate_rules_info",
        "tollgate_build_info",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name}");
    }
    promtool(&text);
    server.stop();
}

#[test]
fn the_number_of_series_is_bounded() {
    let rule =
        |n: u32| format!("  - {{ name: r{n}, when: user == \"u{n}\", per: user, limit: 9/s }}\n");
    let rules: String = (0..1100).map(rule).collect();
    let server = start(&format!("domain: shop\nattributes: [user]\nrules:\n{rules}"));
    let admin = AdminClient::with_all_rights(&server);
    for n in 0..1100 {
        admin.check(&format!("u{n}"));
    }
    let text = admin.get("/metrics").text;
    let series = text.lines().filter(|line| line.starts_with("tollgate_decisions_total{")).count();
    assert!(series <= 1000, "{series}");
    let other = "tollgate_decisions_total{domain=\"\",rule=\"other\",outcome=\"allowed\"}";
    assert_eq!(value(&text, other), Some(f64::from(1100 - (1000 - 3))));
    promtool(&text);
    server.stop();
}

#[test]
fn unknown_domains_are_not_labels() {
    let server = start(API);
    let admin = AdminClient::with_all_rights(&server);
    for n in 0..10 {
        let body = serde_json::json!({ "domain": format!("made-up-{n}"), "attributes": {} });
        admin.post("/v1/check", &body);
    }
    let text = admin.get("/metrics").text;
    assert!(!text.contains("made-up"), "{text}");
    server.stop();
}
