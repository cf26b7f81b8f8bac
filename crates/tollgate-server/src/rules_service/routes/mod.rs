//! The HTTP routes of the rules service.

mod audit;
mod bans;
mod bundle;
mod elements;
mod end_time;
mod external_origin;
mod files;
mod lists;
mod modes;
mod token_guard;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tollgate::Clock;
use tollgate_rules::{BanData, ModeData, OverrideData};

use super::change::{ChangeRequest, ChangeResult};
use super::db::RulesDb;
use super::extract::{Caller, ChangeQuery};
use crate::problem::Problem;
use crate::store::AnyLimiter;

/// The state shared by all routes.
#[derive(Clone, Debug)]
pub(super) struct RoutesContext {
    pub(super) db: RulesDb,
    /// The clock that determines when bans end.
    pub(super) clock: Clock,
    /// The limiter of this process; `None` in a stand-alone rules service.
    pub(super) limiter: Option<AnyLimiter>,
    /// The external origin of the rules, if they are not stored here.
    pub(super) external: Option<ExternalOrigin>,
    /// Becomes true when the service stops, which ends long polling.
    pub(super) stopping: watch::Receiver<bool>,
    /// Limits database probes to one at a time, because `/readyz` needs no token.
    pub(super) probing: Arc<Mutex<()>>,
}

pub(crate) use external_origin::ExternalOrigin;
pub(crate) use token_guard::{TokenGuard, with_guard};

/// Returns the router of a stand-alone rules service.
pub(super) fn router(context: RoutesContext, guard: TokenGuard) -> Router {
    let routes = routes(context.clone());
    with_guard(routes.fallback(unknown_path).method_not_allowed_fallback(method_not_allowed), guard)
        // Health checks are not behind the guard, because process supervisors have no token.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(bundle::ready).with_state(context))
}

/// Returns the routes that need a token.
pub(super) fn routes(context: RoutesContext) -> Router {
    Router::new()
        .route("/v1/rules", get(files::list))
        .route("/v1/rules/bundle", get(bundle::fetch))
        .route("/v1/rules/{name}", get(files::get).put(files::put).delete(files::remove))
        .route("/v1/rules/{name}/history", get(files::history))
        .route("/v1/rules/{name}/versions/{version}", get(files::version))
        .route("/v1/rules/{name}/rollback", post(files::rollback))
        .route("/v1/audit", get(audit::list))
        .route("/v1/overrides", get(elements::overrides).post(elements::add_override))
        .route(
            "/v1/overrides/{id}",
            get(elements::get_override).delete(elements::remove::<OverrideData>),
        )
        .route("/v1/bans", get(bans::list).post(bans::add).delete(bans::lift))
        .route("/v1/bans/{id}", get(bans::get).delete(elements::remove::<BanData>))
        .route("/v1/modes", get(modes::list).post(modes::set))
        .route("/v1/modes/{id}", get(modes::get).delete(elements::remove::<ModeData>))
        .route("/v1/lists", get(lists::lists))
        .route(
            "/v1/lists/{name}",
            get(lists::get_list).put(lists::set_list).delete(lists::remove_list),
        )
        .route("/v1/lists/{name}/entries", post(lists::add_entries).delete(lists::remove_entries))
        .layer(from_fn_with_state(context.clone(), external_origin::answer))
        .with_state(context)
}

/// Returns the response for an unknown path.
pub(crate) async fn unknown_path() -> Problem {
    Problem::not_found("such path")
}

/// Returns the response for a method that a path does not support.
pub(crate) async fn method_not_allowed() -> Problem {
    let detail = "this path does not support that method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

fn request(Caller(author): Caller, changing: &ChangeQuery) -> ChangeRequest {
    ChangeRequest { author, dry_run: changing.dry_run }
}

/// Returns a JSON response with an optional entity tag.
fn json_response(status: StatusCode, etag: Option<&str>, body: &Value) -> Response {
    let mut response = (status, axum::Json(body)).into_response();
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// Returns the response to a change: `body` with the fields common to all changes.
fn change_response<T>(
    result: &ChangeResult<T>,
    created: bool,
    etag: Option<&str>,
    mut body: Value,
) -> Response {
    body["revision"] = json!(result.revision);
    body["changed"] = json!(result.changed);
    if !result.warnings.is_empty() {
        body["warnings"] = json!(result.warnings);
    }
    if result.dry_run {
        // A dry run returns no entity tag, because another change may take that version first.
        body["dry_run"] = json!(true);
        return json_response(StatusCode::OK, None, &body);
    }
    if let Some(etag) = etag {
        body["etag"] = json!(etag);
    }
    let status = if created && result.changed { StatusCode::CREATED } else { StatusCode::OK };
    json_response(status, etag, &body)
}
