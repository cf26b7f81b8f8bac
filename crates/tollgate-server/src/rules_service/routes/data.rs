//! Lists, and the audit.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Context, answer, changed, request};
use crate::rules_service::change::{self, ListChange, Settled};
use crate::rules_service::db::{audit as lines, lists as stored_lists};
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Asked, Caller, Changing, Document, InPath, Precondition};

/// Lines on a page of the audit, unless asked for fewer or more.
const PAGE: u64 = 100;
const LONGEST_PAGE: u64 = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Page {
    limit: Option<u64>,
    before: Option<u64>,
    subject: Option<String>,
}

pub(super) async fn audit(
    State(context): State<Context>,
    Asked(page): Asked<Page>,
) -> Result<Response> {
    let limit = page.limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE);
    let found = context.db.call(move |keeper| {
        Ok(lines::page(&keeper.connection, page.before, page.subject.as_deref(), limit)?)
    });
    let entries = found.await?;
    let more = entries.len() as u64 == limit;
    let next = entries.last().filter(|_| more).map(|line| line.id);
    Ok(answer(StatusCode::OK, None, &json!({ "entries": entries, "next_before": next })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct InDomain {
    domain: String,
}

/// Parameters of a change of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ChangingList {
    domain: String,
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entries {
    entries: Vec<String>,
}

fn list_body(list: &stored_lists::Stored) -> Value {
    let mut body = json!(list.what);
    body["etag"] = json!(list.etag());
    body["revision"] = json!(list.revision);
    body
}

pub(super) async fn lists(State(context): State<Context>) -> Result<Response> {
    let all = context.db.call(|keeper| Ok(stored_lists::all(&keeper.connection)?)).await?;
    let lists: Vec<Value> = all.iter().map(list_body).collect();
    Ok(answer(StatusCode::OK, None, &json!({ "lists": lists })))
}

pub(super) async fn get_list(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    Asked(InDomain { domain }): Asked<InDomain>,
) -> Result<Response> {
    let found = context.db.call(move |keeper| {
        let found = stored_lists::get(&keeper.connection, &domain, &name)?;
        let no_list = || {
            let name = name.escape_debug();
            Problem::not_found(format_args!("list `{name}` as data; it may be in a rules file"))
        };
        found.ok_or_else(no_list)
    });
    let list = found.await?;
    Ok(answer(StatusCode::OK, Some(&list.etag()), &list_body(&list)))
}

type ChangeEntries = fn(
    &mut crate::rules_service::db::Keeper,
    &change::Request,
    (&str, &str),
    &[String],
    &Precondition,
) -> Result<Settled<ListChange>>;

/// What setting, adding and removing entries have in common.
async fn change_entries(
    context: Context,
    name: String,
    caller: Caller,
    asked: ChangingList,
    (expected, entries): (Precondition, Vec<String>),
    change: ChangeEntries,
) -> Result<Response> {
    let ChangingList { domain, dry_run } = asked;
    let request = request(caller, &Changing { dry_run });
    let settled = context
        .db
        .call(move |keeper| change(keeper, &request, (&domain, &name), &entries, &expected))
        .await?;
    Ok(list_changed(&settled))
}

fn list_changed(settled: &Settled<ListChange>) -> Response {
    let ListChange { name, etag, created, entries, touched } = &settled.value;
    let body = json!({ "name": name, "entries": entries, "touched": touched });
    changed(settled, *created, etag.as_deref(), body)
}

pub(super) async fn set_list(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(asked): Asked<ChangingList>,
    expected: Precondition,
    Document(Entries { entries }): Document<Entries>,
) -> Result<Response> {
    change_entries(context, name, caller, asked, (expected, entries), change::set_list).await
}

pub(super) async fn add_entries(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(asked): Asked<ChangingList>,
    expected: Precondition,
    Document(Entries { entries }): Document<Entries>,
) -> Result<Response> {
    change_entries(context, name, caller, asked, (expected, entries), change::add_entries).await
}

pub(super) async fn remove_entries(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(asked): Asked<ChangingList>,
    expected: Precondition,
    Document(Entries { entries }): Document<Entries>,
) -> Result<Response> {
    change_entries(context, name, caller, asked, (expected, entries), change::remove_entries).await
}

pub(super) async fn remove_list(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(asked): Asked<ChangingList>,
    expected: Precondition,
) -> Result<Response> {
    let ChangingList { domain, dry_run } = asked;
    let request = request(caller, &Changing { dry_run });
    let removed = context
        .db
        .call(move |keeper| change::remove_list(keeper, &request, (&domain, &name), &expected));
    Ok(list_changed(&removed.await?))
}
