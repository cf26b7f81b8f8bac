//! `/v1/batch`: many decisions in one call.

use futures_util::future::join_all;
use hyper::StatusCode;
use tollgate::{StoreError, Verdicts};
use tollgate_rules::Decision;

use super::body_fields::{self, FieldNames};
use super::decide::{CallTarget, DOOR, require_domain, store_unavailable};
use super::{HttpResponse, json_response, render};
use crate::decisions::{DecisionService, InlineLimitList, RequestAttributes};
use crate::headers::DecisionSummary;
use crate::problem::Problem;

/// The number of decisions that are under way at the same time where the store is remote.
const CONCURRENT_DECISIONS: usize = 64;

/// The result of one request of a batch.
#[expect(clippy::large_enum_variant, reason = "most are by rules")]
enum BatchResult<'t, 'a> {
    ByRules(&'t RequestAttributes<'a>, Decision),
    ByLimits(&'t InlineLimitList, Result<Verdicts, StoreError>),
}

/// Decides all requests of a batch, and returns their decisions in order.
pub(super) async fn respond(
    decisions: &DecisionService,
    body: &[u8],
) -> Result<HttpResponse, Problem> {
    let fields = body_fields::read(body, FieldNames::BATCH)?;
    let requests = fields.requests.ok_or_else(|| {
        Problem::bad_request("`requests` is missing: a list of checks and limits").about("requests")
    })?;
    // All requests are validated before any is decided, so that an error costs nothing.
    let mut targets = Vec::with_capacity(requests.len());
    for (index, request) in requests.into_iter().enumerate() {
        let cost = request.cost.unwrap_or(1);
        let target = CallTarget::new(decisions, request);
        let located = |problem: Problem| problem.within(&format!("requests[{index}]"));
        targets.push((target.map_err(located)?, cost));
    }
    let mut json = Vec::with_capacity(256 * targets.len() + 16);
    json.extend_from_slice(b"{\"results\":[");
    let chunk = if decisions.store().memory().is_some() { 1 } else { CONCURRENT_DECISIONS };
    for targets in targets.chunks(chunk) {
        let pending = targets.iter().map(|(target, cost)| decide(decisions, target, *cost));
        for result in join_all(pending).await {
            write(decisions, &result, &mut json);
        }
    }
    json.extend_from_slice(b"]}");
    Ok(json_response(StatusCode::OK, json))
}

async fn decide<'t, 'a>(
    decisions: &DecisionService,
    target: &'t CallTarget<'a>,
    cost: u64,
) -> BatchResult<'t, 'a> {
    match target {
        CallTarget::Rules(request) => {
            let decision = decisions.check(DOOR, &request.request(cost), cost).await;
            BatchResult::ByRules(request, decision)
        }
        CallTarget::InlineLimits(key, limits) => BatchResult::ByLimits(
            limits,
            decisions.check_inline_limits(DOOR, key.as_bytes(), limits, cost).await,
        ),
    }
}

fn write(decisions: &DecisionService, result: &BatchResult<'_, '_>, json: &mut Vec<u8>) {
    match result {
        BatchResult::ByRules(request, decision) => {
            match require_domain(decisions, request, decision) {
                Ok(()) => render::list_item(json, &DecisionSummary::new(decision)),
                Err(problem) => render::list_problem(json, &problem),
            }
        }
        BatchResult::ByLimits(limits, Ok(verdicts)) => {
            render::list_item(
                json,
                &DecisionSummary::from_verdicts(limits.with_verdicts(verdicts)),
            );
        }
        BatchResult::ByLimits(_, Err(error)) => {
            render::list_problem(json, &store_unavailable(error));
        }
    }
}
