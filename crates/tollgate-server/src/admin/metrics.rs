//! The metrics endpoint, in the text format of Prometheus.

use axum::extract::State;
use hyper::header::{CONTENT_TYPE, HeaderName};
use tollgate_rules::RuleInfo;

use crate::background::panic_counts;
use crate::server::Context;
use crate::store::AnyLimiter;
use crate::telemetry::Exposition;

/// The maximum number of rules with a gauge of their own.
const MAX_QUEUES: usize = 1000;
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(
    State(context): State<Context>,
) -> ([(HeaderName, &'static str); 1], String) {
    let mut text = Exposition::default();
    context.decisions.telemetry().report(&mut text);
    context.decisions.report_reservations(&mut text);
    super::concurrency::report(&context, &mut text).await;
    if let Some(deferred) = &context.deferred {
        deferred.report(&mut text).await;
    }
    let name = "tollgate_connections_refused_total";
    text.metric(name, "counter", "Connections refused because all others were busy, by door.");
    for (door, refused) in context.connections.refused() {
        text.sample(name, &[("door", door)], refused);
    }
    let name = "tollgate_database_stalled_seconds";
    text.metric(name, "gauge", "Time that a database on disk has not answered; 0 if it answers.");
    for (database, stalled) in super::health::stalled_databases(&context) {
        let stalled = stalled.unwrap_or_default().as_secs_f64();
        text.sample(name, &[("database", database)], stalled);
    }
    let name = "tollgate_worker_panics_total";
    text.metric(
        name,
        "counter",
        "Panics of background workers, each a bug of tollgate, by worker.",
    );
    for panic in panic_counts() {
        text.sample(name, &[("worker", panic.worker.as_str())], panic.count);
    }
    let (store, health) = (context.decisions.store(), context.decisions.store().health());
    let memory = store.memory();
    text.metric("tollgate_keys", "gauge", "Keys in the memory store; absent for a shared store.");
    memory.iter().for_each(|memory| text.sample("tollgate_keys", &[], memory.len()));
    let help = "Memory of the counters in the memory store; absent for a shared store.";
    text.metric("tollgate_memory_bytes", "gauge", help);
    memory.iter().for_each(|memory| text.sample("tollgate_memory_bytes", &[], memory.memory()));
    let help = "Keys evicted because the memory store was full.";
    text.metric("tollgate_evictions_total", "counter", help);
    memory.iter().for_each(|it| text.sample("tollgate_evictions_total", &[], it.evictions()));
    let help = "Memory of request bodies that are being received or decided.";
    text.single("tollgate_buffered_body_bytes", "gauge", help, context.bodies.used());
    let help = "Requests refused because their client had no memory left for bodies.";
    text.single("tollgate_bodies_refused_total", "counter", help, context.bodies.refusals());
    if let Some(snapshots) = &context.snapshots {
        snapshots.status().report(&mut text);
    }
    let help = "Store servers that are not contacted until they recover.";
    text.single("tollgate_store_resting", "gauge", help, health.outages.len());
    let help = "Nodes that share the store, including this one.";
    text.single("tollgate_nodes", "gauge", help, health.nodes);
    let help = "Bans imposed by the ladders of rules.";
    text.metric("tollgate_bans_total", "counter", help);
    for (domain, rule, count) in context.decisions.limiter().bans().given() {
        text.sample("tollgate_bans_total", &[("domain", &domain), ("rule", &rule)], count);
    }
    let help = "Keys banned by this server whose ban has not expired.";
    text.single(
        "tollgate_banned_keys",
        "gauge",
        help,
        context.decisions.limiter().bans().banned_keys(),
    );
    queues(&mut text, context.decisions.limiter());
    let help = "Requests that may pass beyond a limit: 0 unless rules are synced or the store is down; \
                +Inf while it is down and rules let requests through.";
    let bound = health.overshoot_bound(&context.decisions.limiter().rules());
    let bound = bound.map_or("+Inf".to_owned(), |bound| bound.to_string());
    text.single("tollgate_overshoot_bound", "gauge", help, bound);
    let name = "tollgate_fair_tenants";
    let help = "Tenants with a share of a rule's limits: recently active on this server.";
    text.metric(name, "gauge", help);
    for one in context.decisions.limiter().status().fair_tenants() {
        text.sample(name, &[("domain", &one.domain), ("rule", &one.rule)], one.tenants);
    }
    let rules = context.rules.status();
    let version = context.decisions.limiter().status().replacements() + 1;
    let help = "Number of rule sets that have been active since the start.";
    text.single("tollgate_rules_version", "gauge", help, version);
    text.metric("tollgate_rules_info", "gauge", "Version of the active rules.");
    text.sample("tollgate_rules_info", &[("version", &rules.version)], 1);
    let help = "Failed reads of the origin of the rules.";
    text.single("tollgate_rules_reload_errors_total", "counter", help, rules.failures);
    text.metric("tollgate_build_info", "gauge", "Version of tollgate.");
    text.sample("tollgate_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    ([(CONTENT_TYPE, FORMAT)], text.into_text())
}

/// Writes the queue depth of each rule that delays requests.
fn queues(text: &mut Exposition, limiter: &AnyLimiter) {
    let help = "Requests queued in this process, by rule.";
    text.metric("tollgate_queue_depth", "gauge", help);
    let (rules, waiting) = (limiter.rules(), limiter.status().queues());
    let depth = |rule: &RuleInfo<'_>| {
        let mut queues = waiting.iter();
        queues.find(|it| it.domain == rule.domain && it.rule == rule.name).map(|it| it.waiting)
    };
    let depths = rules.iter().map(|rule| (depth(&rule), rule));
    // Leaky limits queue requests too, whatever the rule does with refused ones.
    let depths = depths.filter(|(depth, rule)| depth.is_some() || !rule.then.patience().is_zero());
    for (depth, rule) in depths.take(MAX_QUEUES) {
        let labels = [("domain", rule.domain), ("rule", rule.name)];
        text.sample("tollgate_queue_depth", &labels, depth.unwrap_or(0));
    }
}
