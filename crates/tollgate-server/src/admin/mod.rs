//! The admin API: health, metrics, rules, keys, the busiest keys and the live tail.
//!
//! Health needs no token. Metrics and `/rlconfig` need no token on a loopback address or a unix socket; elsewhere
//! they do, like all other calls. Tokens and roles are those of the rules service: a token with the
//! role `read` cannot reset a key.

mod concurrency;
mod decisions;
mod deferred;
mod health;
mod keys;
mod metrics;
mod simulate;
mod top;

use axum::Router;
use axum::routing::{any, get, post};

use crate::net::Bind;
use crate::rules_service::routes::{method_not_allowed, unknown_path, with_guard};
use crate::server::Context;

/// Returns the routes of the HTTP door that are not decisions.
///
/// The routes are health, metrics, and the admin API unless it has a separate address. The router has no
/// fallback, because the door has one.
pub(crate) fn router(context: Context) -> Router {
    let operations = operations(context.clone(), &context.config.http);
    match context.config.admin {
        Some(_) => operations,
        None => operations.merge(guarded_calls(context)),
    }
}

/// Returns the routes of the admin API's separate address.
pub(crate) fn own_router(context: Context) -> Router {
    operations(context.clone(), &context.config.admin)
        .merge(guarded_calls(context))
        .fallback(unknown_path)
        .method_not_allowed_fallback(method_not_allowed)
}

fn operations(context: Context, bind: &Option<Bind>) -> Router {
    let is_local = bind.as_ref().is_some_and(|bind| bind.address.is_local());
    let metrics = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/rlconfig", any(health::envoy_config))
        .with_state(context.clone());
    let metrics = match is_local {
        true => metrics,
        false => with_guard(metrics, context.rules.guard()),
    };
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(health::ready))
        .route("/healthcheck", any(health::envoy_health))
        .with_state(context)
        .merge(metrics)
}

fn guarded_calls(context: Context) -> Router {
    let guard = context.rules.guard();
    let calls = Router::new()
        .route("/v1/keys/peek", post(keys::peek))
        .route("/v1/keys/reset", post(keys::reset))
        .route("/v1/keys/topup", post(keys::top_up))
        .route("/v1/top", get(top::top))
        .route("/v1/decisions", get(decisions::decisions))
        .route("/v1/simulate", post(simulate::simulate))
        .route("/v1/deferred", get(deferred::list))
        .route("/v1/deferred/replay", post(deferred::replay_all))
        .route("/v1/deferred/{id}", get(deferred::show).delete(deferred::cancel))
        .route("/v1/deferred/{id}/replay", post(deferred::replay))
        .with_state(context.clone());
    with_guard(calls.merge(context.rules.routes()), guard)
}
