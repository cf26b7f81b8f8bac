//! The routes of overrides, and the code shared by overrides, bans and modes.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use serde_json::{Value, json};
use tollgate_rules::OverrideData;

use super::{RoutesContext, change_response, json_response, request};
use crate::problem::{Problem, Result};
use crate::rules_service::change::{self, ChangeResult};
use crate::rules_service::db::elements::{self as stored, Element, StoredElement};
use crate::rules_service::extract::{Caller, ChangeQuery, JsonBody, UrlPath, UrlQuery};

fn read_id<T: Element>(id: &str) -> Result<u64> {
    let number = id.parse::<u64>().ok().filter(|id| i64::try_from(*id).is_ok());
    let wrong = || Problem::bad_request(format!("the id of a {} is a number", T::NAME));
    number.ok_or_else(wrong)
}

pub(super) async fn all<T: Element>(context: &RoutesContext) -> Result<Vec<StoredElement<T>>> {
    context.db.call(|state| Ok(stored::all::<T>(&state.connection)?)).await
}

pub(super) async fn one<T: Element>(context: &RoutesContext, id: &str) -> Result<StoredElement<T>> {
    let id = read_id::<T>(id)?;
    let found = context.db.call(move |state| {
        let none = || Problem::not_found(format_args!("{} {id}", T::NAME));
        stored::get::<T>(&state.connection, id)?.ok_or_else(none)
    });
    found.await
}

pub(super) async fn remove<T: Element>(
    State(context): State<RoutesContext>,
    UrlPath(id): UrlPath<String>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
) -> Result<Response> {
    let (id, request) = (read_id::<T>(&id)?, request(caller, &changing));
    let removed = context.db.call(move |state| change::remove_element::<T>(state, &request, id));
    let result = removed.await?;
    Ok(change_response(&result, false, None, json!({ "id": result.value })))
}

pub(super) fn added(result: &ChangeResult<u64>, mut more: Value) -> Response {
    more["id"] = if result.dry_run { Value::Null } else { json!(result.value) };
    change_response(result, true, None, more)
}

fn override_body(stored: &StoredElement<OverrideData>) -> Value {
    let StoredElement { id, data, at, who, revision } = stored;
    json!({ "id": id, "override": data, "at": at, "who": who, "revision": revision })
}

pub(super) async fn overrides(State(context): State<RoutesContext>) -> Result<Response> {
    let all: Vec<Value> = all(&context).await?.iter().map(override_body).collect();
    Ok(json_response(StatusCode::OK, None, &json!({ "overrides": all })))
}

pub(super) async fn get_override(
    State(context): State<RoutesContext>,
    UrlPath(id): UrlPath<String>,
) -> Result<Response> {
    Ok(json_response(StatusCode::OK, None, &override_body(&one(&context, &id).await?)))
}

pub(super) async fn add_override(
    State(context): State<RoutesContext>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
    JsonBody(data): JsonBody<OverrideData>,
) -> Result<Response> {
    let request = request(caller, &changing);
    let added_one = context.db.call(move |state| change::add_element(state, &request, &data));
    Ok(added(&added_one.await?, json!({})))
}
