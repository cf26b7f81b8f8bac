//! Who is noisy.

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
    let keys: Vec<Value> = top.iter().map(Noise::to_json).collect();
    Ok(Json(json!({ "keys": keys, "error": error, "window_s": 120 })))
}
