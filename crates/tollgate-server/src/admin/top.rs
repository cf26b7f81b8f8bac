//! The call for the busiest keys.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::problem::Result;
use crate::rules_service::extract::UrlQuery;
use crate::server::Context;
use crate::telemetry::{TopKey, TopOrder};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TopQuery {
    by: TopOrder,
    domain: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn top(
    State(context): State<Context>,
    UrlQuery(asked): UrlQuery<TopQuery>,
) -> Result<Json<Value>> {
    let limit = asked.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let telemetry = context.decisions.telemetry();
    let (top, error) = telemetry.top(asked.by, asked.domain.as_deref(), limit);
    let mut keys: Vec<Value> = top.iter().map(TopKey::to_json).collect();
    mark_banned(&context, &mut keys).await;
    Ok(Json(json!({ "keys": keys, "error": error, "window_s": 120 })))
}

/// Marks keys that are currently banned by a ladder. Marks none if the store does not answer.
async fn mark_banned(context: &Context, keys: &mut [Value]) {
    let bans = context.decisions.limiter().bans().list().await.unwrap_or_default();
    let banned: HashSet<(&str, &str, &str)> =
        bans.iter().map(|ban| (&*ban.domain, &*ban.rule, &*ban.key)).collect();
    for key in keys {
        let [domain, rule, name] = ["domain", "rule", "key"].map(|field| key[field].as_str());
        let id = domain.zip(rule).zip(name).map(|((domain, rule), name)| (domain, rule, name));
        if id.is_some_and(|id| banned.contains(&id)) {
            key["banned"] = json!(true);
        }
    }
}
