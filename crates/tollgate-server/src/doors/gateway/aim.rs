//! Where a request would go to, for rules that count per upstream: chosen first, then asked about.

use smallvec::SmallVec;
use tollgate::Span;
use tollgate::rules::{Decision, KeyAdjustment, Value, encode_key};
use tollgate_tower::arrival::Arrival;

use super::Visitor;
use crate::telemetry::DoorName;

/// The attribute that rules know it by.
const UPSTREAM: &str = "upstream";

impl Visitor {
    /// Decides a request for the upstream it would go to. Refused by what only that one is full of,
    /// it is asked for at each of the others, as long as they are well. If all are full it waits for
    /// any of them, where rules let it. Told of is one decision.
    pub(super) async fn aim<'a>(&'a self, arrival: Arrival<'a>) -> (Arrival<'a>, Decision, usize) {
        let engine = &self.gateway.context.engine;
        let upstreams = &self.gateway.upstreams;
        let before = engine.clock().now();
        let mut tried: SmallVec<[usize; 4]> = SmallVec::new();
        let mut full: Vec<Arrival<'a>> = Vec::new();
        loop {
            let number = upstreams.choose(&tried);
            tried.push(number);
            if upstreams.is_back(number) {
                self.forget_level_of(upstreams.name(number)).await;
            }
            let aimed = arrival.clone().attribute(UPSTREAM, upstreams.name(number));
            // Nobody stands in line for one upstream while another has room.
            let decided = match upstreams.has_another(&tried) {
                true => engine.limiter().admit_if_free(&aimed.request()).await.map(|it| (it, None)),
                false => {
                    let others: Vec<_> = full.iter().map(Arrival::request).collect();
                    Some(engine.limiter().admit_at_any(&aimed.request(), &others).await)
                }
            };
            let Some((decision, other)) = decided else {
                full.push(aimed);
                continue;
            };
            let took = engine.clock().now().since(before) - Span::from(decision.wait);
            engine.tell(DoorName::Gateway, &decision, 1, took);
            return match other {
                None => (aimed, decision, number),
                Some(other) => (full.swap_remove(other), decision, tried[other]),
            };
        }
    }

    /// What was learned of an upstream before it went down is about another one: its limits begin
    /// at their least again.
    async fn forget_level_of(&self, upstream: &str) {
        let engine = &self.gateway.context.engine;
        let key = encode_key(&[Some(Value::from(upstream))]);
        for (domain, rule) in engine.limiter().rules().places_per_upstream() {
            // A store that does not answer is the store's to report.
            let _ = engine.adjust_key(Some(domain), rule, &key, KeyAdjustment::Reset).await;
        }
    }
}
