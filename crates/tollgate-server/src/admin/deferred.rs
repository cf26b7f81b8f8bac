//! Deferred requests: which there are, and what to do with those that cannot be sent.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::deferred::{self, Deferred, Entry, ItemId, QueueError, Wanted, Which};
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Asked, Caller, InPath};
use crate::server::Context;

const LINES: usize = 50;
const MOST_LINES: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Question {
    state: Option<String>,
    rule: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OfRule {
    rule: Option<String>,
}

pub(super) async fn list(
    State(context): State<Context>,
    Asked(asked): Asked<Question>,
) -> Result<Json<Value>> {
    let wrong = || Problem::bad_request("state is queued, sending, done, failed or cancelled");
    let state = asked.state.as_deref().map(|text| deferred::State::parse(text).ok_or_else(wrong));
    let limit = asked.limit.unwrap_or(LINES).clamp(1, MOST_LINES);
    let wanted = Wanted { state: state.transpose()?, rule: asked.rule, limit };
    let found = here(&context)?.list(wanted).await.map_err(trouble)?;
    let found: Vec<Value> = found.iter().map(Entry::for_operator).collect();
    Ok(Json(json!({ "deferred": found })))
}

pub(super) async fn show(
    State(context): State<Context>,
    InPath(id): InPath<String>,
) -> Result<Json<Value>> {
    Ok(Json(entry(here(&context)?, &id).await?.for_operator()))
}

pub(super) async fn cancel(
    State(context): State<Context>,
    Caller(author): Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Value>> {
    let deferred = here(&context)?;
    let before = entry(deferred, &id).await?;
    if !deferred.cancel(before.id).await.map_err(trouble)? {
        return Err(
            too_late(deferred, &id, "only what waits or has failed can be cancelled").await?
        );
    }
    tracing::info!(who = author.who, id, "a deferred request was cancelled");
    Ok(Json(entry(deferred, &id).await?.for_operator()))
}

pub(super) async fn replay(
    State(context): State<Context>,
    Caller(author): Caller,
    InPath(id): InPath<String>,
) -> Result<Json<Value>> {
    let deferred = here(&context)?;
    let before = entry(deferred, &id).await?;
    if deferred.revive(Which::One(before.id)).await.map_err(trouble)? == 0 {
        return Err(too_late(deferred, &id, "only what has failed is sent again").await?);
    }
    tracing::info!(who = author.who, id, "a deferred request is sent again");
    Ok(Json(entry(deferred, &id).await?.for_operator()))
}

pub(super) async fn replay_all(
    State(context): State<Context>,
    Caller(author): Caller,
    Asked(OfRule { rule }): Asked<OfRule>,
) -> Result<Json<Value>> {
    let count = here(&context)?.revive(Which::All(rule.clone())).await.map_err(trouble)?;
    tracing::info!(who = author.who, ?rule, count, "deferred requests are sent again");
    Ok(Json(json!({ "replayed": count })))
}

fn here(context: &Context) -> Result<&Arc<Deferred>> {
    let none = || {
        let detail = "this server defers nothing: it has no gateway (--to), or no data folder";
        Problem::new(StatusCode::NOT_FOUND, "not-found", detail)
    };
    context.deferred.as_ref().ok_or_else(none)
}

async fn entry(deferred: &Deferred, id: &str) -> Result<Entry> {
    let none = || Problem::not_found("deferred request of that id; it may be done long ago");
    let id = ItemId::parse(id).ok_or_else(none)?;
    deferred.entry(id).await.map_err(trouble)?.ok_or_else(none)
}

/// It is in another state than it should be.
async fn too_late(deferred: &Deferred, id: &str, why: &str) -> Result<Problem> {
    let state = entry(deferred, id).await?.state;
    Ok(Problem::new(StatusCode::CONFLICT, "conflict", format!("it is {state}: {why}")))
}

fn trouble(error: QueueError) -> Problem {
    Problem::busy(error.to_string())
}
