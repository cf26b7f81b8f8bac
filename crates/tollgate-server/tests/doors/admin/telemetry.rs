//! Traces by OTLP with a real collector, and decision logs.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::API;
use super::client::AdminClient;
use crate::support::{DEADLINE, free_port, node, start_with};

#[test]
fn a_collector_receives_a_span_of_every_decision_in_the_sample() {
    let port = free_port();
    let collector = std::thread::spawn(move || node("admin/collect.js", &[&port.to_string(), "3"]));
    for _ in 0..DEADLINE.as_millis() / 20 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let server = start_with(API, |config| {
        config.telemetry.otlp = Some(format!("http://127.0.0.1:{port}"));
        config.telemetry.trace_share = 1.0;
    });
    let admin = AdminClient::with_all_rights(&server);
    for _ in 0..3 {
        admin.check("ann");
    }
    // A stopping server sends its remaining spans.
    server.stop();
    let spans: Value = serde_json::from_str(&collector.join().unwrap()).unwrap();
    let spans = spans.as_array().unwrap();
    assert_eq!(spans.len(), 3);
    for (span, outcome) in spans.iter().zip(["allowed", "allowed", "denied"]) {
        let attributes = &span["attributes"];
        assert_eq!((&span["service"], &span["name"]), (&"tollgate".into(), &"decision".into()));
        for (name, value) in
            [("domain", "shop"), ("rule", "api"), ("outcome", outcome), ("door", "http")]
        {
            assert_eq!(attributes[format!("tollgate.{name}")], value, "{span}");
        }
    }
}

#[test]
fn a_missing_collector_loses_only_traces() {
    let server = start_with(API, |config| {
        config.telemetry.otlp = Some(format!("http://127.0.0.1:{}", free_port()));
        config.telemetry.trace_share = 1.0;
    });
    let admin = AdminClient::with_all_rights(&server);
    assert!(admin.passes("ann") && admin.passes("ann") && !admin.passes("ann"));
    server.stop();
}

/// A subscriber that records the fields of logged decisions.
#[derive(Clone, Default)]
struct DecisionLog(Arc<Mutex<Vec<String>>>);

struct FieldText(String);

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0 += &format!("{field}={value} ");
    }
}

impl Subscriber for DecisionLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tollgate::decision"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = FieldText(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn refusals_are_logged_with_fields_at_a_bounded_rate() {
    let log = DecisionLog::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let server = start_with(API, |config| config.telemetry.log_denied = 1.0);
    let admin = AdminClient::with_all_rights(&server);
    let hostile = "\u{1b}[31m\r\nforged=1";
    for _ in 0..3 {
        admin.passes(hostile);
    }
    let lines = log.0.lock().unwrap().clone();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    for field in ["door=http", "domain=shop", "rule=api", "outcome=denied", "reason=over_limit"] {
        assert!(line.contains(field), "{field}: {line}");
    }
    assert!(line.contains("key=%1B[31m%0D%0Aforged=1"), "{line}");
    assert!(!line.contains(['\u{1b}', '\r', '\n']), "{line}");
    server.stop();
}
