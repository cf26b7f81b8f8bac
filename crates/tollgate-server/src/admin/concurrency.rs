//! How many requests may be at an upstream, and how many are: only rules know.

use tollgate::rules::{KeyAdjustment, Value, encode_key};

use crate::server::Context;
use crate::telemetry::Exposition;

/// The most series of each metric.
const MOST: usize = 1000;

/// Writes the limits on concurrency of every upstream of the gateway.
pub(super) async fn report(context: &Context, into: &mut Exposition) {
    let engine = &context.engine;
    let upstreams = engine.telemetry().upstream_names();
    let rules = engine.limiter().rules();
    let mut found = Vec::new();
    for (domain, rule) in rules.places_per_upstream() {
        for upstream in &upstreams {
            let key = encode_key(&[Some(Value::from(&**upstream))]);
            let peek = engine.adjust_key(Some(domain), rule, &key, KeyAdjustment::Peek).await;
            let Ok(Some(decision)) = peek else { continue };
            let places = decision.limits().filter(|limit| limit.quota.period.is_none());
            if let Some(least) = places.map(|limit| limit.verdict).min_by_key(|it| it.limit)
                && found.len() < MOST
            {
                found.push(([domain, rule, &**upstream], least));
            }
        }
    }
    if found.is_empty() {
        return;
    }
    let (limit, in_flight) = ("tollgate_concurrency_limit", "tollgate_concurrency_in_flight");
    into.metric(limit, "gauge", "How many requests a rule lets be at an upstream at a time.");
    for ([domain, rule, upstream], verdict) in &found {
        let labels = [("domain", &**domain), ("rule", &**rule), ("upstream", &**upstream)];
        into.sample(limit, &labels, verdict.limit);
    }
    into.metric(in_flight, "gauge", "How many requests are at an upstream, up to the limit.");
    for ([domain, rule, upstream], verdict) in &found {
        let labels = [("domain", &**domain), ("rule", &**rule), ("upstream", &**upstream)];
        into.sample(in_flight, &labels, verdict.limit.saturating_sub(verdict.remaining));
    }
}
