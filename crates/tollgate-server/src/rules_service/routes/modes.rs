//! Modes of rules that were set while running; that of all rules is the kill switch.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::rules::ModeData;

use super::ending::{Ending, end_of, now, rest_ms};
use super::{Context, answer, elements, request};
use crate::rules_service::change;
use crate::rules_service::db::elements::Stored;
use crate::rules_service::problem::Result;
use crate::rules_service::reading::{Asked, Caller, Changing, Document, InPath};

/// A mode as it is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeRequest {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    mode: String,
    #[serde(default, rename = "for")]
    lasts: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

fn body(stored: &Stored<ModeData>, now: Timestamp) -> Value {
    let Stored { id, what, at, who, revision } = stored;
    let mut body = json!(what);
    body["id"] = json!(id);
    body["at"] = json!(at);
    body["who"] = json!(who);
    body["revision"] = json!(revision);
    body["rest_ms"] = rest_ms(end_of(&what.until), now);
    body
}

/// Those that are not over.
pub(super) async fn list(State(context): State<Context>) -> Result<Response> {
    let now = now(&context);
    let mut all = elements::all::<ModeData>(&context).await?;
    all.retain(|stored| end_of(&stored.what.until).is_none_or(|end| end > now));
    let modes: Vec<Value> = all.iter().map(|stored| body(stored, now)).collect();
    Ok(answer(StatusCode::OK, None, &json!({ "modes": modes })))
}

pub(super) async fn get(
    State(context): State<Context>,
    InPath(id): InPath<String>,
) -> Result<Response> {
    let mode = elements::one(&context, &id).await?;
    Ok(answer(StatusCode::OK, None, &body(&mode, now(&context))))
}

/// Sets the mode of a rule, instead of the one that was set before.
pub(super) async fn set(
    State(context): State<Context>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    Document(asked): Document<ModeRequest>,
) -> Result<Response> {
    let now = now(&context);
    let ModeRequest { domain, rule, mode, lasts, until, reason } = asked;
    let until = Ending { lasts, until }.at(now)?.map(|end| end.to_string());
    let what = ModeData { domain, rule, mode, until: until.clone(), reason };
    let request = request(caller, &changing);
    let (domain, rule) = (what.domain.clone(), what.rule.clone());
    let is_replaced = move |known: &ModeData| {
        let is_same = known.rule == rule && known.domain == domain;
        is_same || end_of(&known.until).is_some_and(|end| end <= now)
    };
    let set = context
        .db
        .call(move |keeper| change::replace_element(keeper, &request, &what, is_replaced));
    Ok(elements::added(&set.await?, json!({ "until": until })))
}
