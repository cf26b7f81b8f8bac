//! What limiters ask: is there anything new?

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;

use super::Context;
use crate::bundle::MEDIA_TYPE;
use crate::rules_service::db::{Keeper, Published};
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Asked, tags};

/// The longest an answer is held back.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);
const READY_WITHIN: Duration = Duration::from_secs(2);
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Waiting {
    /// `30s`, or `30`.
    wait: Option<String>,
}

/// Everything a limiter needs. With `?wait=30s` or `Prefer: wait=30`, and a version that is still
/// the last, the answer is held back until there is another one.
pub(super) async fn fetch(
    State(context): State<Context>,
    Asked(waiting): Asked<Waiting>,
    headers: HeaderMap,
) -> Result<Response> {
    let wait = match &waiting.wait {
        Some(text) => Some(
            seconds(text)
                .ok_or_else(|| Problem::bad_request("wait is a number of seconds, such as 30s"))?,
        ),
        None => preferred(&headers),
    };
    let known = tags(&headers, &IF_NONE_MATCH)?.unwrap_or_default();
    let is_known = |published: &Arc<Published>| {
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
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// RFC 7240: a preference that cannot be read is none.
fn preferred(headers: &HeaderMap) -> Option<Duration> {
    let preferences = headers.get_all(PREFER).into_iter().filter_map(|value| value.to_str().ok());
    let mut each = preferences.flat_map(|value| value.split([',', ';']));
    each.find_map(|one| seconds(one.trim().strip_prefix("wait=")?))
}

/// Whether the service can do its work: the database answers, and what it has can be used.
pub(super) async fn ready(State(context): State<Context>) -> Result<&'static str> {
    let wrong = context.db.published().borrow().wrong.is_some();
    if wrong {
        let detail = "the stored rules are wrong for this version of tollgate; see the log";
        return Err(Problem::busy(detail));
    }
    let look = async {
        let _probing = context.probing.lock().await;
        let look = |keeper: &mut Keeper| {
            Ok(keeper.connection.query_row("SELECT 1 FROM state", [], |_| Ok(()))?)
        };
        context.db.call(look).await
    };
    match tokio::time::timeout(READY_WITHIN, look).await {
        Ok(looked) => looked.map(|()| "ready\n"),
        Err(_) => Err(Problem::busy("the rules database does not answer in time")),
    }
}
