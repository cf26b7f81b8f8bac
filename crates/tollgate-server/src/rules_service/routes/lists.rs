//! The routes of lists.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{RoutesContext, change_response, json_response, request};
use crate::problem::Result;
use crate::rules_service::change::{self, ChangeResult, ListChange};
use crate::rules_service::db::{self, lists as stored_lists};
use crate::rules_service::extract::{
    Caller, ChangeQuery, JsonBody, Precondition, UrlPath, UrlQuery,
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DomainQuery {
    domain: String,
}

/// The query of a change of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListChangeQuery {
    domain: String,
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntriesBody {
    entries: Vec<String>,
}

fn list_body(list: &stored_lists::StoredList) -> Value {
    let mut body = json!(list.data);
    body["etag"] = json!(list.etag());
    body["revision"] = json!(list.revision);
    body
}

pub(super) async fn lists(State(context): State<RoutesContext>) -> Result<Response> {
    let all = context.db.call(|state| Ok(stored_lists::all(&state.connection)?)).await?;
    let lists: Vec<Value> = all.iter().map(list_body).collect();
    Ok(json_response(StatusCode::OK, None, &json!({ "lists": lists })))
}

pub(super) async fn get_list(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    UrlQuery(DomainQuery { domain }): UrlQuery<DomainQuery>,
) -> Result<Response> {
    let found =
        context.db.call(move |state| match stored_lists::get(&state.connection, &domain, &name)? {
            Some(list) => Ok(list),
            None => {
                let bundle = db::load(&state.connection, state.checker.external())?;
                Err(change::no_stored_list(&bundle, (&domain, &name)))
            }
        });
    let list = found.await?;
    Ok(json_response(StatusCode::OK, Some(&list.etag()), &list_body(&list)))
}

type ChangeEntriesFn = fn(
    &mut crate::rules_service::db::DbState,
    &change::ChangeRequest,
    (&str, &str),
    &[String],
    &Precondition,
) -> Result<ChangeResult<ListChange>>;

/// Changes the entries of a list: sets, adds or removes them.
async fn change_entries(
    context: RoutesContext,
    name: String,
    caller: Caller,
    asked: ListChangeQuery,
    (expected, entries): (Precondition, Vec<String>),
    change: ChangeEntriesFn,
) -> Result<Response> {
    let ListChangeQuery { domain, dry_run } = asked;
    let request = request(caller, &ChangeQuery { dry_run });
    let result = context
        .db
        .call(move |state| change(state, &request, (&domain, &name), &entries, &expected))
        .await?;
    Ok(list_changed(&result))
}

fn list_changed(result: &ChangeResult<ListChange>) -> Response {
    let ListChange { name, etag, created, entries, touched } = &result.value;
    let body = json!({ "name": name, "entries": entries, "touched": touched });
    change_response(result, *created, etag.as_deref(), body)
}

pub(super) async fn set_list(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(asked): UrlQuery<ListChangeQuery>,
    expected: Precondition,
    JsonBody(EntriesBody { entries }): JsonBody<EntriesBody>,
) -> Result<Response> {
    change_entries(context, name, caller, asked, (expected, entries), change::set_list).await
}

pub(super) async fn add_entries(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(asked): UrlQuery<ListChangeQuery>,
    expected: Precondition,
    JsonBody(EntriesBody { entries }): JsonBody<EntriesBody>,
) -> Result<Response> {
    change_entries(context, name, caller, asked, (expected, entries), change::add_entries).await
}

pub(super) async fn remove_entries(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(asked): UrlQuery<ListChangeQuery>,
    expected: Precondition,
    JsonBody(EntriesBody { entries }): JsonBody<EntriesBody>,
) -> Result<Response> {
    change_entries(context, name, caller, asked, (expected, entries), change::remove_entries).await
}

pub(super) async fn remove_list(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(asked): UrlQuery<ListChangeQuery>,
    expected: Precondition,
) -> Result<Response> {
    let ListChangeQuery { domain, dry_run } = asked;
    let request = request(caller, &ChangeQuery { dry_run });
    let removed = context
        .db
        .call(move |state| change::remove_list(state, &request, (&domain, &name), &expected));
    Ok(list_changed(&removed.await?))
}
