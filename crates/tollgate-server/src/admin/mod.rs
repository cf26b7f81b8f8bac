//! What operators ask: health, metrics, rules, keys, who is noisy.
//!
//! Health is for everybody who reaches the door. Metrics are too on a loopback address or a unix
//! socket; elsewhere they need a token, like everything else here. Tokens are those of the rules
//! service, and so are roles: a token that can only read cannot reset a key.

mod concurrency;
mod decisions;
mod deferred;
mod health;
mod keys;
mod metrics;
mod simulate;
mod top;

use axum::Router;
use axum::routing::{get, post};

use crate::net::Bind;
use crate::rules_service::routes::{guarded, no_such_method, nowhere};
use crate::server::Context;

/// Every call of the HTTP door that is not a decision: health and metrics, and the admin API unless
/// it has an address of its own. Has no fallback: the door's own applies.
pub(crate) fn router(context: Context) -> Router {
    let operations = operations(context.clone(), &context.config.http);
    match context.config.admin {
        Some(_) => operations,
        None => operations.merge(guarded_calls(context)),
    }
}

/// Everything that the admin API's own address answers.
pub(crate) fn own_router(context: Context) -> Router {
    operations(context.clone(), &context.config.admin)
        .merge(guarded_calls(context))
        .fallback(nowhere)
        .method_not_allowed_fallback(no_such_method)
}

fn operations(context: Context, bind: &Option<Bind>) -> Router {
    let is_local = bind.as_ref().is_some_and(|bind| bind.address.is_local());
    let metrics =
        Router::new().route("/metrics", get(metrics::metrics)).with_state(context.clone());
    let metrics = match is_local {
        true => metrics,
        false => guarded(metrics, context.rules.guard()),
    };
    Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(health::ready))
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
    guarded(calls.merge(context.rules.routes()), guard)
}
