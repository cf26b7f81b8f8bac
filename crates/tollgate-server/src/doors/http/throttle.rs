//! `POST /throttle`, with the request and the response of throttlecrab.

use std::borrow::Cow;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::body_fields::MAX_KEY_CHARS;
use super::decide::{DOOR, store_unavailable};
use super::{HttpResponse, json_response};
use crate::decisions::{
    Database, DecisionService, ThrottleArguments, ThrottleDialect, throttlecrab_times,
};
use crate::problem::Problem;

/// The body of a request. As in throttlecrab, other fields are ignored.
#[derive(Debug, Deserialize)]
struct ThrottleBody<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    max_burst: i64,
    count_per_period: i64,
    period: i64,
    quantity: Option<i64>,
}

/// Decides; the counters are those of `THROTTLE` and `CL.THROTTLE` in database 0.
pub(super) async fn respond(
    decisions: &DecisionService,
    body: &[u8],
) -> Result<HttpResponse, Problem> {
    let invalid = |detail: String| Problem::bad_request(detail);
    let body: ThrottleBody<'_> =
        serde_json::from_slice(body).map_err(|error| invalid(format!("the body: {error}")))?;
    let ThrottleBody { key, max_burst, count_per_period, period, quantity } = body;
    if key.chars().count() > MAX_KEY_CHARS {
        let detail = format!("`key`: a key has at most {MAX_KEY_CHARS} characters");
        return Err(Problem::bad_request(detail).about("key"));
    }
    let quantity = quantity.unwrap_or(1);
    let dialect = ThrottleDialect::Throttlecrab;
    let arguments = ThrottleArguments::new(dialect, max_burst, count_per_period, period, quantity)
        .map_err(|error| invalid(error.trim_start_matches("ERR ").into()))?;
    let limit = arguments
        .inline_limit(decisions, Database::default())
        .map_err(|error| invalid(error.to_string()))?;
    let cost = quantity.unsigned_abs();
    let verdict = decisions.check_inline(DOOR, key.as_bytes(), &limit, cost).await;
    let verdict = verdict.map_err(|error| store_unavailable(&error))?;
    let (reset_after, retry_after) = throttlecrab_times(&verdict);
    let answer = json!({
        "allowed": verdict.allowed,
        "limit": verdict.limit,
        "remaining": verdict.remaining,
        "reset_after": reset_after,
        "retry_after": retry_after,
    });
    Ok(json_response(StatusCode::OK, answer.to_string()))
}
