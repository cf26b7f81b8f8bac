//! Metrics, in the text format of Prometheus.

use axum::extract::State;
use hyper::header::{CONTENT_TYPE, HeaderName};

use crate::server::Context;
use crate::telemetry::Exposition;

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(
    State(context): State<Context>,
) -> ([(HeaderName, &'static str); 1], String) {
    let mut text = Exposition::default();
    context.engine.telemetry().report(&mut text);
    if let Some(deferred) = &context.deferred {
        deferred.report(&mut text).await;
    }
    let (store, health) = (context.engine.store(), context.engine.store().health());
    let memory = store.memory();
    text.metric("tollgate_keys", "gauge", "Keys that are held; not known of a shared store.");
    memory.iter().for_each(|memory| text.sample("tollgate_keys", &[], memory.len()));
    let help = "Keys that gave way to others because the store was full.";
    text.metric("tollgate_evictions_total", "counter", help);
    memory.iter().for_each(|it| text.sample("tollgate_evictions_total", &[], it.evictions()));
    let help = "Servers of the store that are left alone until they are well again.";
    text.single("tollgate_store_resting", "gauge", help, health.troubles.len());
    let help = "Nodes that share the store, this one included.";
    text.single("tollgate_nodes", "gauge", help, health.nodes);
    let help = "Requests held back in this process; those of other programs are not seen.";
    text.metric("tollgate_queue_depth", "gauge", help);
    let help = "How many more than a limit may pass: none, unless rules are synced.";
    text.single("tollgate_overshoot_bound", "gauge", help, health.overshoot_bound);
    let rules = context.rules.status();
    let version = context.engine.limiter().replacements() + 1;
    let help = "How many sets of rules have been in force since the start.";
    text.single("tollgate_rules_version", "gauge", help, version);
    text.metric("tollgate_rules_info", "gauge", "What the rules in force are called.");
    text.sample("tollgate_rules_info", &[("version", &rules.version)], 1);
    let help = "Looks at the origin of rules that failed.";
    text.single("tollgate_rules_reload_errors_total", "counter", help, rules.failures);
    text.metric("tollgate_build_info", "gauge", "Which tollgate this is.");
    text.sample("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    ([(CONTENT_TYPE, FORMAT)], text.into_text())
}
