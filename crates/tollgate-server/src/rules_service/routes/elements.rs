//! Overrides, and what all elements have in common.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use serde_json::{Value, json};
use tollgate::rules::OverrideData;

use super::{Context, answer, changed, request};
use crate::rules_service::change::{self, Settled};
use crate::rules_service::db::elements::{self as stored, Element, Stored};
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Asked, Caller, Changing, Document, InPath};

fn read_id<T: Element>(id: &str) -> Result<u64> {
    let number = id.parse::<u64>().ok().filter(|id| i64::try_from(*id).is_ok());
    let wrong = || Problem::bad_request(format!("the id of a {} is a number", T::NAME));
    number.ok_or_else(wrong)
}

pub(super) async fn all<T: Element>(context: &Context) -> Result<Vec<Stored<T>>> {
    context.db.call(|keeper| Ok(stored::all::<T>(&keeper.connection)?)).await
}

pub(super) async fn one<T: Element>(context: &Context, id: &str) -> Result<Stored<T>> {
    let id = read_id::<T>(id)?;
    let found = context.db.call(move |keeper| {
        let none = || Problem::not_found(format_args!("{} {id}", T::NAME));
        stored::get::<T>(&keeper.connection, id)?.ok_or_else(none)
    });
    found.await
}

pub(super) async fn remove<T: Element>(
    State(context): State<Context>,
    InPath(id): InPath<String>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
) -> Result<Response> {
    let (id, request) = (read_id::<T>(&id)?, request(caller, &changing));
    let removed = context.db.call(move |keeper| change::remove_element::<T>(keeper, &request, id));
    let settled = removed.await?;
    Ok(changed(&settled, false, None, json!({ "id": settled.value })))
}

pub(super) fn added(settled: &Settled<u64>, mut more: Value) -> Response {
    more["id"] = if settled.dry_run { Value::Null } else { json!(settled.value) };
    changed(settled, true, None, more)
}

fn override_body(stored: &Stored<OverrideData>) -> Value {
    let Stored { id, what, at, who, revision } = stored;
    json!({ "id": id, "override": what, "at": at, "who": who, "revision": revision })
}

pub(super) async fn overrides(State(context): State<Context>) -> Result<Response> {
    let all: Vec<Value> = all(&context).await?.iter().map(override_body).collect();
    Ok(answer(StatusCode::OK, None, &json!({ "overrides": all })))
}

pub(super) async fn get_override(
    State(context): State<Context>,
    InPath(id): InPath<String>,
) -> Result<Response> {
    Ok(answer(StatusCode::OK, None, &override_body(&one(&context, &id).await?)))
}

pub(super) async fn add_override(
    State(context): State<Context>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    Document(what): Document<OverrideData>,
) -> Result<Response> {
    let request = request(caller, &changing);
    let added_one = context.db.call(move |keeper| change::add_element(keeper, &request, &what));
    Ok(added(&added_one.await?, json!({})))
}
