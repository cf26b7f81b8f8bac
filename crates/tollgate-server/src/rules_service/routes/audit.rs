//! The route of the audit log.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::{RoutesContext, json_response};
use crate::problem::Result;
use crate::rules_service::db::audit;
use crate::rules_service::extract::UrlQuery;

/// The default number of entries on a page.
const PAGE: u64 = 100;
/// The maximum number of entries on a page.
const MAX_PAGE: u64 = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AuditQuery {
    limit: Option<u64>,
    before: Option<u64>,
    subject: Option<String>,
}

pub(super) async fn list(
    State(context): State<RoutesContext>,
    UrlQuery(page): UrlQuery<AuditQuery>,
) -> Result<Response> {
    let limit = page.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let found = context.db.call(move |state| {
        Ok(audit::page(&state.connection, page.before, page.subject.as_deref(), limit)?)
    });
    let entries = found.await?;
    let more = entries.len() as u64 == limit;
    let next = entries.last().filter(|_| more).map(|row| row.id);
    Ok(json_response(StatusCode::OK, None, &json!({ "entries": entries, "next_before": next })))
}
