//! The admin calls about the counters of one key: peek, reset and top up.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_rules::{AdjustTarget, Adjustment, Decision};

use crate::headers::{DecisionSummary, LimitStatus};
use crate::problem::{Problem, Result};
use crate::rules_service::extract::{Caller, JsonBody};
use crate::server::Context;

/// A key as decisions and `/v1/top` name it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyRequest {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    key: String,
    /// The amount that a top-up gives back; `amount` is its former name.
    #[serde(default, alias = "amount")]
    cost: Option<u64>,
}

pub(super) async fn peek(
    State(context): State<Context>,
    JsonBody(request): JsonBody<KeyRequest>,
) -> Result<Json<Value>> {
    adjust(&context, &request, Adjustment::Peek).await
}

pub(super) async fn reset(
    State(context): State<Context>,
    caller: Caller,
    JsonBody(request): JsonBody<KeyRequest>,
) -> Result<Json<Value>> {
    change(&context, &caller, &request, Adjustment::Reset).await
}

pub(super) async fn top_up(
    State(context): State<Context>,
    caller: Caller,
    JsonBody(request): JsonBody<KeyRequest>,
) -> Result<Json<Value>> {
    let cost = request.cost.filter(|cost| *cost > 0);
    let none = || Problem::bad_request("a top-up needs a `cost`: a number above 0");
    change(&context, &caller, &request, Adjustment::Refund(cost.ok_or_else(none)?)).await
}

/// Changes a counter and logs it. The audit records only changes of rules and their data.
async fn change(
    context: &Context,
    Caller(author): &Caller,
    request: &KeyRequest,
    adjustment: Adjustment,
) -> Result<Json<Value>> {
    let response = adjust(context, request, adjustment).await?;
    let (domain, rule) = (&request.domain, &request.rule);
    let key = context.rules.limiter().stored_key(domain.as_deref(), rule, &request.key);
    let key = key.escape_debug();
    tracing::info!(who = author.who, ?domain, rule, %key, ?adjustment, "changed a counter");
    Ok(response)
}

async fn adjust(
    context: &Context,
    request: &KeyRequest,
    adjustment: Adjustment,
) -> Result<Json<Value>> {
    if request.cost.is_some() && !matches!(adjustment, Adjustment::Refund(_)) {
        return Err(Problem::bad_request("`cost` is only allowed in a top-up"));
    }
    let (domain, rule, key) = (request.domain.as_deref(), &*request.rule, &*request.key);
    let target = AdjustTarget::Key { domain, rule, key };
    let adjusted = context.decisions.adjust(target, adjustment).await;
    let found = adjusted.map_err(|error| Problem::busy(error.to_string()))?;
    let no_rule = || {
        let rule = request.rule.escape_debug();
        Problem::not_found(format_args!("rule `{rule}` in that domain"))
    };
    match found.rule() {
        Some(_) => Ok(Json(rendered(&found))),
        None => Err(no_rule()),
    }
}

fn rendered(decision: &Decision) -> Value {
    let answer = DecisionSummary::new(decision);
    let limit = |(index, limit): (usize, &LimitStatus<'_>)| {
        json!({
            "policy": answer.policy_name(index).to_string(),
            "limit": limit.limit,
            "remaining": limit.remaining,
            "window_s": limit.window_s,
            "reset_after_ms": limit.reset_after_ms,
            "mode": limit.mode.to_string(),
        })
    };
    json!({
        "domain": decision.domain(),
        "rule": decision.rule(),
        "key": decision.key(),
        "limits": answer.limits.iter().enumerate().map(limit).collect::<Vec<_>>(),
    })
}
