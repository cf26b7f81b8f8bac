//! Chooses the upstream before the decision, for rules that count per upstream.

use smallvec::SmallVec;
use tollgate::Span;
use tollgate_rules::{AdjustTarget, Adjustment, Decision, Value, encode_key};
use tollgate_tower::request_head::RequestHead;

use super::GatewayConnection;
use crate::telemetry::DoorName;

/// The name of the attribute that contains the upstream.
pub(super) const UPSTREAM: &str = "upstream";

impl GatewayConnection {
    /// Decides a request together with its upstream. If only limits of the first choice refuse, the
    /// other healthy upstreams are tried. If all are full, the request waits for any of them where
    /// rules allow that. One decision is recorded.
    pub(super) async fn choose_upstream<'a>(
        &'a self,
        request_head: RequestHead<'a>,
    ) -> (RequestHead<'a>, Decision, usize) {
        let decisions = &self.gateway.context.decisions;
        let upstreams = &self.gateway.upstreams;
        let before = decisions.clock().now();
        let mut chosen: SmallVec<[usize; 4]> = SmallVec::new();
        loop {
            let number = upstreams.choose(&chosen);
            chosen.push(number);
            if upstreams.is_back(number) {
                self.reset_permits_of(upstreams.name(number)).await;
            }
            if !upstreams.has_another(&chosen) {
                break;
            }
        }
        let aimed =
            |number: &usize| request_head.clone().attribute(UPSTREAM, upstreams.name(*number));
        let mut arrivals: Vec<RequestHead<'a>> = chosen.iter().map(aimed).collect();
        let (decision, chosen) = {
            let requests: Vec<_> = arrivals.iter().map(RequestHead::request).collect();
            let (decision, index) = decisions.limiter().admit_any(&requests, UPSTREAM).await;
            (decision, (index, chosen[index]))
        };
        let took = decisions.clock().now().since(before) - Span::from(decision.wait);
        decisions.record(DoorName::Gateway, &decision, 1, took);
        (arrivals.swap_remove(chosen.0), decision, chosen.1)
    }

    /// Resets the limits per upstream when an upstream recovers: its earlier concurrency level no
    /// longer applies.
    async fn reset_permits_of(&self, upstream: &str) {
        let decisions = &self.gateway.context.decisions;
        let key = encode_key(&[Some(Value::from(upstream))]);
        for (domain, rule) in decisions.limiter().rules().hold_permits_by(UPSTREAM) {
            // The store reports its failures itself.
            let target = AdjustTarget::Key { domain: Some(domain), rule, key: &key };
            let _ = decisions.adjust(target, Adjustment::Reset).await;
        }
    }
}
