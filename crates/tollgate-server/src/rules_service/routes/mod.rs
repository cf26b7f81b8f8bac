//! What may be asked of a rules service.

mod bundle;
mod data;
mod files;
mod guard;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::StatusCode;
use hyper::header::{ETAG, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};

use super::access::Tokens;
use super::change::{Request, Settled};
use super::db::Db;
use super::problem::Problem;
use super::reading::{Caller, Changing};

/// What every request is answered with the help of.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) db: Db,
    pub(super) tokens: Arc<Tokens>,
    pub(super) request_timeout: Duration,
    /// Becomes true once the service stops: nobody is kept waiting then.
    pub(super) stopping: watch::Receiver<bool>,
    /// Held by who asks whether the database answers: one at a time, because anybody may ask.
    pub(super) probing: Arc<Mutex<()>>,
}

pub(super) fn router(context: Context) -> Router {
    Router::new()
        .route("/v1/rules", get(files::list))
        .route("/v1/rules/bundle", get(bundle::fetch))
        .route("/v1/rules/{name}", get(files::get).put(files::put).delete(files::remove))
        .route("/v1/rules/{name}/history", get(files::history))
        .route("/v1/rules/{name}/versions/{version}", get(files::version))
        .route("/v1/rules/{name}/rollback", post(files::rollback))
        .route("/v1/audit", get(data::audit))
        .route("/v1/overrides", get(data::overrides).post(data::add_override))
        .route("/v1/overrides/{id}", get(data::get_override).delete(data::remove_override))
        .route("/v1/lists", get(data::lists))
        .route(
            "/v1/lists/{name}",
            get(data::get_list).put(data::set_list).delete(data::remove_list),
        )
        .route("/v1/lists/{name}/entries", post(data::add_entries).delete(data::remove_entries))
        .fallback(nowhere)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(context.clone(), guard::guard))
        // Not behind the guard: whoever looks after processes has no token.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(bundle::ready))
        .with_state(context)
}

/// The answer at an address that nothing has.
pub(crate) async fn nowhere() -> Problem {
    Problem::not_found("such address")
}

/// The answer to a method that an address does not take.
pub(crate) async fn no_such_method() -> Problem {
    let detail = "this address does not take that method";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

fn request(Caller(author): Caller, changing: &Changing) -> Request {
    Request { author, dry_run: changing.dry_run }
}

/// An answer in JSON with the version it is about.
fn answer(status: StatusCode, etag: Option<&str>, body: &Value) -> Response {
    let mut response = (status, axum::Json(body)).into_response();
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// The answer to a change: what is said of every change, and more.
fn changed<T>(
    settled: &Settled<T>,
    created: bool,
    etag: Option<&str>,
    mut body: Value,
) -> Response {
    body["revision"] = json!(settled.revision);
    body["changed"] = json!(settled.changed);
    if !settled.warnings.is_empty() {
        body["warnings"] = json!(settled.warnings);
    }
    if settled.dry_run {
        // What a change would be called is not said: somebody else's may come first.
        body["dry_run"] = json!(true);
        return answer(StatusCode::OK, None, &body);
    }
    if let Some(etag) = etag {
        body["etag"] = json!(etag);
    }
    let status = if created && settled.changed { StatusCode::CREATED } else { StatusCode::OK };
    answer(status, etag, &body)
}
