//! The routes from which limiters fetch the bundle, by long polling.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;

use super::RoutesContext;
use crate::bundle::MEDIA_TYPE;
use crate::problem::{Problem, Result};
use crate::rules_service::db::{DbState, PublishedBundle};
use crate::rules_service::extract::{UrlQuery, entity_tags};

/// The maximum time of long polling.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);
const READY_TIMEOUT: Duration = Duration::from_secs(2);
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct WaitQuery {
    /// The time to wait, as `30s` or `30`.
    wait: Option<String>,
}

/// Returns the bundle.
///
/// With `?wait=30s` or `Prefer: wait=30` and an entity tag that is still current, the response waits
/// for the next version.
pub(super) async fn fetch(
    State(context): State<RoutesContext>,
    UrlQuery(waiting): UrlQuery<WaitQuery>,
    headers: HeaderMap,
) -> Result<Response> {
    let wait =
        match &waiting.wait {
            Some(text) => Some(seconds(text).ok_or_else(|| {
                Problem::bad_request("`wait` is a number of seconds, such as 30s")
            })?),
            None => preferred(&headers),
        };
    let known = entity_tags(&headers, &IF_NONE_MATCH)?.unwrap_or_default();
    let is_known = |published: &Arc<PublishedBundle>| {
        let same = |tag: &String| tag == "*" || tag.trim_start_matches("W/") == published.etag;
        known.iter().any(same)
    };
    let mut published = context.db.published();
    if let Some(wait) = wait {
        let mut stopping = context.stopping.clone();
        tokio::select! {
            _ = published.wait_for(|published| !is_known(published)) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
    let published = published.borrow().clone();
    let mut response = if is_known(&published) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let media_type = HeaderValue::from_static(MEDIA_TYPE);
        ([(CONTENT_TYPE, media_type)], Body::from(published.body.clone())).into_response()
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&published.etag) {
        headers.insert(ETAG, etag);
    }
    if let Some(wait) = wait
        && let Ok(applied) = HeaderValue::from_str(&format!("wait={}", wait.as_secs()))
    {
        headers.insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_WAIT))
}

/// Returns the wait of the header `Prefer`; RFC 7240 ignores malformed preferences.
fn preferred(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all(PREFER).into_iter().filter_map(|value| value.to_str().ok());
    let mut each = preferences.flat_map(|value| value.split([',', ';']));
    each.find_map(|one| seconds(one.trim().strip_prefix("wait=")?))
}

/// Reports whether the database answers and the stored rules are valid.
pub(super) async fn ready(State(context): State<RoutesContext>) -> Result<&'static str> {
    let is_invalid = context.db.published().borrow().invalid.is_some();
    if is_invalid {
        let detail = "this version of tollgate rejects the stored rules; see the log";
        return Err(Problem::busy(detail));
    }
    let look = async {
        let _probing = context.probing.lock().await;
        let look = |state: &mut DbState| {
            Ok(state.connection.query_row("SELECT 1 FROM state", [], |_| Ok(()))?)
        };
        context.db.call(look).await
    };
    match tokio::time::timeout(READY_TIMEOUT, look).await {
        Ok(looked) => looked.map(|()| "ready\n"),
        Err(_) => Err(Problem::busy("the rules database does not answer in time")),
    }
}
