//! Readiness of the server.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::background::{PanicCount, panic_counts};
use crate::server::Context;
use crate::store::FailureModes;

/// Answers 200 with the active rules, or 503 when load balancers should use another server.
///
/// A failing origin of rules is reported but does not make the server unready, because the previous
/// rules stay active. Nor does a failing store, because all servers share it and none would be left;
/// the exception is a server whose rules all refuse without the store. A database whose disk stalls
/// is reported too: decisions need no disk. So are panics of background workers, which start again.
/// Nothing here waits for a disk or a store.
pub(super) async fn ready(State(context): State<Context>) -> (StatusCode, Json<Value>) {
    let (rules, store) = (context.decisions.limiter().rules(), context.decisions.store());
    let why = if context.drain.is_leaving() {
        Some("leaving")
    } else if rules.domain_names().next().is_none() {
        Some("there are no rules")
    } else if !store.health().is_healthy() && FailureModes::from_rules(&rules).all_deny() {
        Some("the store is down, and every rule refuses without it")
    } else {
        None
    };
    let status = if why.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let mut detail = json!(context.rules.status());
    detail["count"] = json!(rules.len());
    let left_out = context.rules.left_out();
    if !left_out.is_empty() {
        detail["left_out"] = json!(left_out);
    }
    let mut body = json!({
        "ready": why.is_none(),
        "rules": detail,
        "store": store.to_json(&rules),
    });
    if let Some(why) = why {
        body["why"] = json!(why);
    }
    let stalled: Vec<Value> = stalled_databases(&context)
        .filter_map(|(database, stalled)| {
            Some(json!({ "database": database, "seconds": stalled?.as_secs() }))
        })
        .collect();
    if !stalled.is_empty() {
        body["stalled"] = json!(stalled);
    }
    let panics = panic_counts();
    if !panics.is_empty() {
        body["panics"] = panics.iter().map(panic_to_json).collect();
    }
    (status, Json(body))
}

fn panic_to_json(panic: &PanicCount) -> Value {
    json!({
        "worker": panic.worker.as_str(),
        "count": panic.count,
        "last": panic.message,
        "seconds_ago": panic.ago_ms / 1_000,
    })
}

/// Returns the databases on the disk of this server, and how long each has not answered.
pub(super) fn stalled_databases(
    context: &Context,
) -> impl Iterator<Item = (&'static str, Option<Duration>)> {
    let deferred = context.deferred.as_ref().map(|deferred| ("deferred", deferred.stalled_for()));
    std::iter::once(("rules", context.rules.stalled_for())).chain(deferred)
}
