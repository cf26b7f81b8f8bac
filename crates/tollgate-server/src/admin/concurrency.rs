//! Metrics of concurrency limits: the limit and the requests in flight for each upstream.

use tollgate_rules::{AdjustTarget, Adjustment, Value, encode_key};

use crate::server::Context;
use crate::telemetry::Exposition;

/// The maximum number of series of each metric.
const MAX_SERIES: usize = 1000;

/// Writes the concurrency limits of every upstream of the gateway.
pub(super) async fn report(context: &Context, into: &mut Exposition) {
    let decisions = &context.decisions;
    let upstreams = decisions.telemetry().upstream_names();
    let rules = decisions.limiter().rules();
    let mut found = Vec::new();
    for (domain, rule) in rules.hold_permits_by("upstream") {
        for upstream in &upstreams {
            let key = encode_key(&[Some(Value::from(&**upstream))]);
            let target = AdjustTarget::Key { domain: Some(domain), rule, key: &key };
            let Ok(decision) = decisions.adjust(target, Adjustment::Peek).await else { continue };
            let places = decision.limits().filter(|limit| limit.quota.period.is_none());
            if let Some(least) = places.map(|limit| limit.verdict).min_by_key(|it| it.limit)
                && found.len() < MAX_SERIES
            {
                found.push(([domain, rule, &**upstream], least));
            }
        }
    }
    if found.is_empty() {
        return;
    }
    let (limit, in_flight) = ("tollgate_concurrency_limit", "tollgate_concurrency_in_flight");
    into.metric(limit, "gauge", "Concurrency limit of a rule for an upstream.");
    for ([domain, rule, upstream], verdict) in &found {
        let labels = [("domain", &**domain), ("rule", &**rule), ("upstream", &**upstream)];
        into.sample(limit, &labels, verdict.limit);
    }
    into.metric(in_flight, "gauge", "Requests in flight at an upstream, at most the limit.");
    for ([domain, rule, upstream], verdict) in &found {
        let labels = [("domain", &**domain), ("rule", &**rule), ("upstream", &**upstream)];
        into.sample(in_flight, &labels, verdict.limit.saturating_sub(verdict.remaining));
    }
}
