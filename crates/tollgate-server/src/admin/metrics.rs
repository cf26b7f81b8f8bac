//! Metrics, in the text format of Prometheus.

use axum::extract::State;
use hyper::header::{CONTENT_TYPE, HeaderName};
use tollgate::rules::RuleInfo;

use crate::server::Context;
use crate::store::AnyLimiter;
use crate::telemetry::Exposition;

/// So many rules have a gauge of their own.
const MOST_QUEUES: usize = 1000;
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(
    State(context): State<Context>,
) -> ([(HeaderName, &'static str); 1], String) {
    let mut text = Exposition::default();
    context.engine.telemetry().report(&mut text);
    super::concurrency::report(&context, &mut text).await;
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
    let help = "Bans that ladders of rules have given.";
    text.metric("tollgate_bans_total", "counter", help);
    for (domain, rule, count) in context.engine.limiter().bans_given() {
        text.sample("tollgate_bans_total", &[("domain", &domain), ("rule", &rule)], count);
    }
    let help = "Keys that this server banned, and that are still banned.";
    text.single("tollgate_banned_keys", "gauge", help, context.engine.limiter().banned_keys());
    queues(&mut text, context.engine.limiter());
    let help = "How many more than a limit may pass: none, unless rules are synced.";
    text.single("tollgate_overshoot_bound", "gauge", help, health.overshoot_bound);
    let name = "tollgate_fair_tenants";
    let help = "Who has a share of a rule's limits: asked this server lately.";
    text.metric(name, "gauge", help);
    for one in context.engine.limiter().fair_tenants() {
        text.sample(name, &[("domain", &one.domain), ("rule", &one.rule)], one.tenants);
    }
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

/// How many stand in line, for each rule that holds requests back.
fn queues(text: &mut Exposition, limiter: &AnyLimiter) {
    let help = "Requests held back in this process; those of other programs are not seen.";
    text.metric("tollgate_queue_depth", "gauge", help);
    let (rules, waiting) = (limiter.rules(), limiter.waiting());
    let depth = |rule: &RuleInfo<'_>| {
        let mut lines = waiting.iter();
        lines.find(|it| it.domain == rule.domain && it.rule == rule.name).map(|it| it.waiting)
    };
    let depths = rules.iter().map(|rule| (depth(&rule), rule));
    // Leaky limits hold requests back as well, whatever their rule does with what it refuses.
    let depths = depths.filter(|(depth, rule)| depth.is_some() || !rule.then.patience().is_zero());
    for (depth, rule) in depths.take(MOST_QUEUES) {
        let labels = [("domain", rule.domain), ("rule", rule.name)];
        text.sample("tollgate_queue_depth", &labels, depth.unwrap_or(0));
    }
}
