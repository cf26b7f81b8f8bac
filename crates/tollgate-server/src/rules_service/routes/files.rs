//! Rules files: reading, changing, history.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Context, answer, changed, request};
use crate::rules_service::change::{self, FileChange, Settled};
use crate::rules_service::db::files;
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{
    Asked, Caller, Changing, Document, InPath, Precondition, Text, tags,
};

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");

fn no_file(name: &str) -> Problem {
    Problem::not_found(format_args!("rules file `{}`", name.escape_debug()))
}

pub(super) async fn list(State(context): State<Context>) -> Result<Response> {
    let (files, revision) = context
        .db
        .call(|keeper| {
            let connection = &keeper.connection;
            Ok((files::list(connection)?, crate::rules_service::db::revision(connection)?))
        })
        .await?;
    Ok(answer(StatusCode::OK, None, &json!({ "files": files, "revision": revision })))
}

pub(super) async fn get(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let known = tags(&headers, &IF_NONE_MATCH)?.unwrap_or_default();
    let found = context.db.call(move |keeper| {
        files::current(&keeper.connection, &name)?.ok_or_else(|| no_file(&name))
    });
    let current = found.await?;
    let etag = current.etag();
    if known.iter().any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag) {
        return Ok(text(StatusCode::NOT_MODIFIED, String::new(), &etag));
    }
    Ok(text(StatusCode::OK, current.text, &etag))
}

pub(super) async fn version(
    State(context): State<Context>,
    InPath((name, version)): InPath<(String, String)>,
) -> Result<Response> {
    let number = version.parse().map_err(|_| Problem::bad_request("a version is a number"))?;
    let found = context.db.call(move |keeper| {
        let found = files::text_of(&keeper.connection, &name, number)?;
        found.ok_or_else(|| {
            let name = name.escape_debug();
            Problem::not_found(format_args!("text of rules file `{name}` in version {number}"))
        })
    });
    let (found, etag) = found.await?;
    Ok(text(StatusCode::OK, found, &etag))
}

fn text(status: StatusCode, text: String, etag: &str) -> Response {
    let mut response = (status, text).into_response();
    response.headers_mut().insert(CONTENT_TYPE, YAML);
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

pub(super) async fn history(
    State(context): State<Context>,
    InPath(name): InPath<String>,
) -> Result<Response> {
    let found = context.db.call(move |keeper| {
        let history = files::history(&keeper.connection, &name)?;
        if history.is_empty() { Err(no_file(&name)) } else { Ok((name, history)) }
    });
    let (name, versions) = found.await?;
    Ok(answer(StatusCode::OK, None, &json!({ "name": name, "versions": versions })))
}

pub(super) async fn put(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    expected: Precondition,
    Text(text): Text,
) -> Result<Response> {
    let request = request(caller, &changing);
    let put = context.db.call(move |keeper| change::put(keeper, &request, &name, &text, &expected));
    Ok(file_changed(&put.await?))
}

pub(super) async fn remove(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    expected: Precondition,
) -> Result<Response> {
    let request = request(caller, &changing);
    let removed = context.db.call(move |keeper| change::remove(keeper, &request, &name, &expected));
    Ok(file_changed(&removed.await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollback {
    /// The version whose text is wanted.
    to: u64,
}

pub(super) async fn rollback(
    State(context): State<Context>,
    InPath(name): InPath<String>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    expected: Precondition,
    Document(Rollback { to }): Document<Rollback>,
) -> Result<Response> {
    let request = request(caller, &changing);
    let rolled_back =
        context.db.call(move |keeper| change::rollback(keeper, &request, &name, to, &expected));
    Ok(file_changed(&rolled_back.await?))
}

fn file_changed(settled: &Settled<FileChange>) -> Response {
    let FileChange { name, version, etag, created, rules, diff } = &settled.value;
    let mut body = json!({ "name": name, "rules": rules });
    if !settled.dry_run {
        body["version"] = version.map_or(Value::Null, |version| json!(version));
    }
    if let Some(diff) = diff {
        body["diff"] = json!(diff);
    }
    changed(settled, *created, etag.as_deref(), body)
}
