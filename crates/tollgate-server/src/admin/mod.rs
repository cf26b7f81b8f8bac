//! What operators ask: health, metrics, rules, who is noisy.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;

use crate::server::Context;

/// Every call that is not a decision.
pub(crate) fn router(context: Context) -> Router {
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(context)
}

async fn ready(State(context): State<Context>) -> (StatusCode, &'static str) {
    match context.drain.is_leaving() {
        false => (StatusCode::OK, "ok\n"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "leaving\n"),
    }
}
