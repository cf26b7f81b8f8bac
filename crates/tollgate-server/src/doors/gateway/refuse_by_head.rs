//! Refuses requests by the rules that need no body, before their bodies are read.

use hyper::Response;
use hyper::http::request::Parts;
use tollgate_rules::{Decision, Reason, Then};
use tollgate_tower::problem::refusal_to;

use super::choose_upstream::UPSTREAM;
use super::forwarded::ResolvedClient;
use super::proxy_request::GatewayBody;
use super::{GatewayConnection, local_response};
use crate::clock;
use crate::headers::DecisionSummary;
use crate::telemetry::DoorName;

/// The attributes that are not known before the body has come and an upstream is chosen.
const PENDING: &[&str] = &["body", UPSTREAM];

impl GatewayConnection {
    /// Returns the refusal of a request whose body is still on its way, if its head is enough.
    ///
    /// A body that does not come with its head costs memory and time. A client that is over a limit
    /// without it gets neither.
    pub(super) async fn refuse_by_head(
        &self,
        head: &Parts,
        resolved: &ResolvedClient,
    ) -> Option<Box<Response<GatewayBody>>> {
        let context = &self.gateway.context;
        // Behind requests that wait in the deferred queue, this one is deferred and not decided.
        if context.deferred.as_ref().is_some_and(|deferred| !deferred.index().is_empty()) {
            return None;
        }
        let domain = self.gateway.options.domain.as_deref();
        let request_head = resolved.request_head(head, domain);
        let request = request_head.request().pending(PENDING);
        let refused = context.decisions.refuse(DoorName::Gateway, &request, is_final).await?;
        let summary = DecisionSummary::new(&refused);
        let style = context.config.headers;
        let refusal = refusal_to(&head.headers, style, &summary, clock::unix_s());
        Some(Box::new(refusal.map(local_response::whole)))
    }
}

/// Returns whether a refusal does not depend on what is still unknown: the request would neither wait
/// nor be deferred.
fn is_final(decision: &Decision) -> bool {
    let refuses_at_once = |then: Option<&Then>| {
        matches!(then, Some(Then::Deny { .. } | Then::Ban(_) | Then::Shed(_)))
    };
    match decision.reason {
        _ if decision.allowed => false,
        Reason::DeniedByRule | Reason::Banned => true,
        Reason::OverLimit => decision
            .limits()
            .any(|limit| limit.enforced && !limit.verdict.allowed && refuses_at_once(limit.then)),
        _ => false,
    }
}
