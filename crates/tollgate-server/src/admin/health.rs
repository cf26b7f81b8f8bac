//! Whether the server can do its work.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::server::Context;
use crate::store::Modes;

/// 200 with what is in force, 503 when nobody should be sent here. A source of rules in trouble is
/// said and does not make the server unready: the old rules go on. Nor does a store in trouble: all
/// servers share it, and none would be left. Only where every rule refuses without it is somebody
/// else not worse.
pub(super) async fn ready(State(context): State<Context>) -> (StatusCode, Json<Value>) {
    let (rules, store) = (context.engine.limiter().rules(), context.engine.store());
    let why = if context.drain.is_leaving() {
        Some("leaving")
    } else if rules.domain_names().next().is_none() {
        Some("there are no rules")
    } else if !store.health().is_well() && Modes::of(&rules).all_deny() {
        Some("the store is in trouble, and every rule refuses without it")
    } else {
        None
    };
    let status = if why.is_some() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let mut detail = json!(context.rules.status());
    detail["count"] = json!(rules.len());
    let left_out = context.rules.left_out().await;
    if !left_out.is_empty() {
        detail["left_out"] = json!(left_out);
    }
    let mut body = json!({
        "ready": why.is_none(),
        "rules": detail,
        "store": store.to_json(),
    });
    if let Some(why) = why {
        body["why"] = json!(why);
    }
    (status, Json(body))
}
