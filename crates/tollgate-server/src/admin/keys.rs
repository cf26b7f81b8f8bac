//! Counters of one key of one rule: how they stand, and how to change that.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::rules::{Decision, KeyAdjustment};

use crate::headers::{Answer, Standing};
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Caller, Document};
use crate::server::Context;

/// A key, named as decisions and `/v1/top` name it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    key: String,
    /// What a top-up gives back.
    #[serde(default)]
    amount: Option<u64>,
}

pub(super) async fn peek(
    State(context): State<Context>,
    Document(named): Document<Named>,
) -> Result<Json<Value>> {
    adjust(&context, &named, KeyAdjustment::Peek).await
}

pub(super) async fn reset(
    State(context): State<Context>,
    caller: Caller,
    Document(named): Document<Named>,
) -> Result<Json<Value>> {
    change(&context, &caller, &named, KeyAdjustment::Reset).await
}

pub(super) async fn top_up(
    State(context): State<Context>,
    caller: Caller,
    Document(named): Document<Named>,
) -> Result<Json<Value>> {
    let amount = named.amount.filter(|amount| *amount > 0);
    let none = || Problem::bad_request("`amount` says how much is given back: a number above 0");
    change(&context, &caller, &named, KeyAdjustment::TopUp(amount.ok_or_else(none)?)).await
}

/// Counters are not rules: a change of one is in the log, not in the audit.
async fn change(
    context: &Context,
    Caller(author): &Caller,
    named: &Named,
    adjustment: KeyAdjustment,
) -> Result<Json<Value>> {
    let answer = adjust(context, named, adjustment).await?;
    let (domain, rule, key) = (&named.domain, &named.rule, named.key.escape_debug());
    tracing::info!(who = author.who, ?domain, rule, %key, ?adjustment, "a counter was changed");
    Ok(answer)
}

async fn adjust(
    context: &Context,
    named: &Named,
    adjustment: KeyAdjustment,
) -> Result<Json<Value>> {
    if named.amount.is_some() && !matches!(adjustment, KeyAdjustment::TopUp(_)) {
        return Err(Problem::bad_request("only a top-up has an `amount`"));
    }
    let domain = named.domain.as_deref();
    let asked = context.engine.adjust_key(domain, &named.rule, &named.key, adjustment).await;
    let found = asked.map_err(|error| Problem::busy(error.to_string()))?;
    let no_rule = || {
        let rule = named.rule.escape_debug();
        Problem::not_found(format_args!("rule `{rule}` in that domain"))
    };
    Ok(Json(rendered(&found.ok_or_else(no_rule)?)))
}

fn rendered(decision: &Decision) -> Value {
    let answer = Answer::of(decision);
    let limit = |limit: &Standing<'_>| {
        json!({
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
        "limits": answer.limits.iter().map(limit).collect::<Vec<_>>(),
    })
}
