//! The routes of rule modes that are set at run time; the mode of all rules is the kill switch.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_rules::ModeData;

use super::end_time::{EndTime, now, parse_end, remaining_ms};
use super::{RoutesContext, elements, json_response, request};
use crate::problem::Result;
use crate::rules_service::change;
use crate::rules_service::db::elements::StoredElement;
use crate::rules_service::extract::{Caller, ChangeQuery, JsonBody, UrlPath, UrlQuery};

/// The body of a request that sets a mode.
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

fn body(stored: &StoredElement<ModeData>, now: Timestamp) -> Value {
    let StoredElement { id, data, at, who, revision } = stored;
    let mut body = json!(data);
    body["id"] = json!(id);
    body["at"] = json!(at);
    body["who"] = json!(who);
    body["revision"] = json!(revision);
    body["rest_ms"] = remaining_ms(parse_end(&data.until), now);
    body
}

/// Lists the modes that have not expired.
pub(super) async fn list(State(context): State<RoutesContext>) -> Result<Response> {
    let now = now(&context);
    let mut all = elements::all::<ModeData>(&context).await?;
    all.retain(|stored| parse_end(&stored.data.until).is_none_or(|end| end > now));
    let modes: Vec<Value> = all.iter().map(|stored| body(stored, now)).collect();
    Ok(json_response(StatusCode::OK, None, &json!({ "modes": modes })))
}

pub(super) async fn get(
    State(context): State<RoutesContext>,
    UrlPath(id): UrlPath<String>,
) -> Result<Response> {
    let mode = elements::one(&context, &id).await?;
    Ok(json_response(StatusCode::OK, None, &body(&mode, now(&context))))
}

/// Sets the mode of a rule and replaces the previous one.
pub(super) async fn set(
    State(context): State<RoutesContext>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
    JsonBody(asked): JsonBody<ModeRequest>,
) -> Result<Response> {
    let now = now(&context);
    let ModeRequest { domain, rule, mode, lasts, until, reason } = asked;
    let until = EndTime { lasts, until }.at(now)?.map(|end| end.to_string());
    let data = ModeData { domain, rule, mode, until: until.clone(), reason };
    let request = request(caller, &changing);
    let (domain, rule) = (data.domain.clone(), data.rule.clone());
    let is_replaced = move |known: &ModeData| {
        let is_same = known.rule == rule && known.domain == domain;
        is_same || parse_end(&known.until).is_some_and(|end| end <= now)
    };
    let set =
        context.db.call(move |state| change::replace_element(state, &request, &data, is_replaced));
    Ok(elements::added(&set.await?, json!({ "until": until })))
}
