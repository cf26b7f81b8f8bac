//! The routes of rules files and their history.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{RoutesContext, change_response, json_response, request};
use crate::problem::{Problem, Result};
use crate::rules_service::change::{self, ChangeResult, FileChange};
use crate::rules_service::db::files;
use crate::rules_service::extract::{
    Caller, ChangeQuery, JsonBody, Precondition, TextBody, UrlPath, UrlQuery, entity_tags,
};

const YAML: HeaderValue = HeaderValue::from_static("application/yaml");

fn no_file(name: &str) -> Problem {
    Problem::not_found(format_args!("rules file `{}`", name.escape_debug()))
}

pub(super) async fn list(State(context): State<RoutesContext>) -> Result<Response> {
    let (files, revision) = context
        .db
        .call(|state| {
            let connection = &state.connection;
            Ok((files::list(connection)?, crate::rules_service::db::revision(connection)?))
        })
        .await?;
    Ok(json_response(StatusCode::OK, None, &json!({ "files": files, "revision": revision })))
}

pub(super) async fn get(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    headers: HeaderMap,
) -> Result<Response> {
    let known = entity_tags(&headers, &IF_NONE_MATCH)?.unwrap_or_default();
    let found = context
        .db
        .call(move |state| files::current(&state.connection, &name)?.ok_or_else(|| no_file(&name)));
    let current = found.await?;
    let etag = current.etag();
    if known.iter().any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag) {
        return Ok(text(StatusCode::NOT_MODIFIED, String::new(), &etag));
    }
    Ok(text(StatusCode::OK, current.text, &etag))
}

pub(super) async fn version(
    State(context): State<RoutesContext>,
    UrlPath((name, version)): UrlPath<(String, String)>,
) -> Result<Response> {
    let number = version.parse().map_err(|_| Problem::bad_request("a version is a number"))?;
    let found = context.db.call(move |state| {
        let found = files::version_text(&state.connection, &name, number)?;
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
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
) -> Result<Response> {
    let found = context.db.call(move |state| {
        let history = files::history(&state.connection, &name)?;
        if history.is_empty() { Err(no_file(&name)) } else { Ok((name, history)) }
    });
    let (name, versions) = found.await?;
    Ok(json_response(StatusCode::OK, None, &json!({ "name": name, "versions": versions })))
}

pub(super) async fn put(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
    expected: Precondition,
    TextBody(text): TextBody,
) -> Result<Response> {
    let request = request(caller, &changing);
    let put = context.db.call(move |state| change::put(state, &request, &name, &text, &expected));
    Ok(file_changed(&put.await?))
}

pub(super) async fn remove(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
    expected: Precondition,
) -> Result<Response> {
    let request = request(caller, &changing);
    let removed = context.db.call(move |state| change::remove(state, &request, &name, &expected));
    Ok(file_changed(&removed.await?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RollbackBody {
    /// The version whose text becomes current.
    to: u64,
}

pub(super) async fn rollback(
    State(context): State<RoutesContext>,
    UrlPath(name): UrlPath<String>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
    expected: Precondition,
    JsonBody(RollbackBody { to }): JsonBody<RollbackBody>,
) -> Result<Response> {
    let request = request(caller, &changing);
    let rolled_back =
        context.db.call(move |state| change::rollback(state, &request, &name, to, &expected));
    Ok(file_changed(&rolled_back.await?))
}

fn file_changed(result: &ChangeResult<FileChange>) -> Response {
    let FileChange { name, version, etag, created, rules, diff } = &result.value;
    let mut body = json!({ "name": name, "rules": rules });
    if !result.dry_run {
        body["version"] = version.map_or(Value::Null, |version| json!(version));
    }
    if let Some(diff) = diff {
        body["diff"] = json!(diff);
    }
    change_response(result, *created, etag.as_deref(), body)
}
