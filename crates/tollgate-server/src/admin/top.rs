//! Who is noisy.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::rules_service::problem::Result;
use crate::rules_service::reading::Asked;
use crate::server::Context;
use crate::telemetry::{By, Noise};

const LINES: usize = 20;
const MOST_LINES: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Question {
    by: By,
    domain: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn top(
    State(context): State<Context>,
    Asked(asked): Asked<Question>,
) -> Result<Json<Value>> {
    let limit = asked.limit.unwrap_or(LINES).clamp(1, MOST_LINES);
    let telemetry = context.engine.telemetry();
    let (top, error) = telemetry.top(asked.by, asked.domain.as_deref(), limit);
    let mut keys: Vec<Value> = top.iter().map(Noise::to_json).collect();
    mark_banned(&context, &mut keys).await;
    Ok(Json(json!({ "keys": keys, "error": error, "window_s": 120 })))
}

/// Says of keys that a ladder has banned that they are. Who is noisy is said even if the store does
/// not answer.
async fn mark_banned(context: &Context, keys: &mut [Value]) {
    let bans = context.engine.limiter().bans().await.unwrap_or_default();
    let banned: HashSet<(&str, &str, &str)> =
        bans.iter().map(|ban| (&*ban.domain, &*ban.rule, &*ban.key)).collect();
    for key in keys {
        let [domain, rule, name] = ["domain", "rule", "key"].map(|field| key[field].as_str());
        let named = domain.zip(rule).zip(name).map(|((domain, rule), name)| (domain, rule, name));
        if named.is_some_and(|named| banned.contains(&named)) {
            key["banned"] = json!(true);
        }
    }
}
