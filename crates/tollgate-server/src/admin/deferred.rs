//! The admin calls about deferred requests: list, show, cancel and send again.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::deferred::{
    self, Deferred, ItemDetails, ItemFilter, ItemId, QueueError, ReviveSelection,
};
use crate::problem::{Problem, Result};
use crate::rules_service::extract::{Caller, UrlPath, UrlQuery};
use crate::server::Context;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DeferredQuery {
    state: Option<String>,
    rule: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ReplayQuery {
    rule: Option<String>,
}

pub(super) async fn list(
    State(context): State<Context>,
    UrlQuery(asked): UrlQuery<DeferredQuery>,
) -> Result<Json<Value>> {
    let wrong = || Problem::bad_request("`state` is queued, sending, done, failed or cancelled");
    let state =
        asked.state.as_deref().map(|text| deferred::ItemState::parse(text).ok_or_else(wrong));
    let limit = asked.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let wanted = ItemFilter { state: state.transpose()?, rule: asked.rule, limit };
    let deferred = queue(&context)?;
    let found = deferred.list(wanted).await.map_err(trouble)?;
    let found: Vec<Value> =
        found.iter().map(|details| details.for_operator(&deferred.options)).collect();
    Ok(Json(json!({ "deferred": found })))
}

pub(super) async fn show(
    State(context): State<Context>,
    UrlPath(id): UrlPath<String>,
) -> Result<Json<Value>> {
    let deferred = queue(&context)?;
    Ok(Json(entry(deferred, &id).await?.for_operator(&deferred.options)))
}

pub(super) async fn cancel(
    State(context): State<Context>,
    Caller(author): Caller,
    UrlPath(id): UrlPath<String>,
) -> Result<Json<Value>> {
    let deferred = queue(&context)?;
    let before = entry(deferred, &id).await?;
    if !deferred.cancel(before.id).await.map_err(trouble)? {
        return Err(
            too_late(deferred, &id, "only queued and failed requests can be cancelled").await?
        );
    }
    tracing::info!(who = author.who, id, "cancelled a deferred request");
    Ok(Json(entry(deferred, &id).await?.for_operator(&deferred.options)))
}

pub(super) async fn replay(
    State(context): State<Context>,
    Caller(author): Caller,
    UrlPath(id): UrlPath<String>,
) -> Result<Json<Value>> {
    let deferred = queue(&context)?;
    let before = entry(deferred, &id).await?;
    if deferred.revive(ReviveSelection::One(before.id)).await.map_err(trouble)? == 0 {
        return Err(too_late(deferred, &id, "only failed requests can be sent again").await?);
    }
    tracing::info!(who = author.who, id, "sending a deferred request again");
    Ok(Json(entry(deferred, &id).await?.for_operator(&deferred.options)))
}

pub(super) async fn replay_all(
    State(context): State<Context>,
    Caller(author): Caller,
    UrlQuery(ReplayQuery { rule }): UrlQuery<ReplayQuery>,
) -> Result<Json<Value>> {
    let count =
        queue(&context)?.revive(ReviveSelection::All(rule.clone())).await.map_err(trouble)?;
    tracing::info!(who = author.who, ?rule, count, "sending deferred requests again");
    Ok(Json(json!({ "replayed": count })))
}

fn queue(context: &Context) -> Result<&Arc<Deferred>> {
    let none = || {
        let detail = "this server has no deferred queue: that needs --to and a data folder";
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    };
    context.deferred.as_ref().ok_or_else(none)
}

async fn entry(deferred: &Deferred, id: &str) -> Result<ItemDetails> {
    let none = || Problem::not_found("deferred request of that id; it may have been removed");
    let id = ItemId::parse(id).ok_or_else(none)?;
    deferred.details(id).await.map_err(trouble)?.ok_or_else(none)
}

/// Returns the conflict of a request that is not in the state that a call requires.
async fn too_late(deferred: &Deferred, id: &str, why: &str) -> Result<Problem> {
    let state = entry(deferred, id).await?.state;
    Ok(Problem::new(StatusCode::CONFLICT, "conflict", format!("the request is {state}: {why}")))
}

fn trouble(error: QueueError) -> Problem {
    Problem::busy(error.to_string())
}
