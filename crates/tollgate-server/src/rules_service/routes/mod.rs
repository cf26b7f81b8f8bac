//! What may be asked of a rules service.

mod bans;
mod bundle;
mod data;
mod elements;
mod elsewhere;
mod ending;
mod files;
mod guard;
mod modes;

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
use tollgate::rules::{BanData, ModeData, OverrideData};

use super::change::{Request, Settled};
use super::db::Db;
use super::problem::Problem;
use super::reading::{Caller, Changing};
use crate::store::AnyLimiter;

/// What every request is answered with the help of.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) db: Db,
    /// Tells when bans end.
    pub(super) clock: Clock,
    /// Who decides by the rules and bans, if that is in this process.
    pub(super) limiter: Option<AnyLimiter>,
    /// Where the rules come from, if not from here.
    pub(super) elsewhere: Option<Elsewhere>,
    /// Becomes true once the service stops: nobody is kept waiting then.
    pub(super) stopping: watch::Receiver<bool>,
    /// Held by who asks whether the database answers: one at a time, because anybody may ask.
    pub(super) probing: Arc<Mutex<()>>,
}

pub(crate) use elsewhere::Elsewhere;
pub(crate) use guard::{Guard, guarded};

/// Everything a rules service answers when it runs on its own.
pub(super) fn router(context: Context, guard: Guard) -> Router {
    let routes = routes(context.clone());
    guarded(routes.fallback(nowhere).method_not_allowed_fallback(no_such_method), guard)
        // Not behind the guard: whoever looks after processes has no token.
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(bundle::ready).with_state(context))
}

/// What only those with a token may ask.
pub(super) fn routes(context: Context) -> Router {
    Router::new()
        .route("/v1/rules", get(files::list))
        .route("/v1/rules/bundle", get(bundle::fetch))
        .route("/v1/rules/{name}", get(files::get).put(files::put).delete(files::remove))
        .route("/v1/rules/{name}/history", get(files::history))
        .route("/v1/rules/{name}/versions/{version}", get(files::version))
        .route("/v1/rules/{name}/rollback", post(files::rollback))
        .route("/v1/audit", get(data::audit))
        .route("/v1/overrides", get(elements::overrides).post(elements::add_override))
        .route(
            "/v1/overrides/{id}",
            get(elements::get_override).delete(elements::remove::<OverrideData>),
        )
        .route("/v1/bans", get(bans::list).post(bans::add).delete(bans::lift))
        .route("/v1/bans/{id}", get(bans::get).delete(elements::remove::<BanData>))
        .route("/v1/modes", get(modes::list).post(modes::set))
        .route("/v1/modes/{id}", get(modes::get).delete(elements::remove::<ModeData>))
        .route("/v1/lists", get(data::lists))
        .route(
            "/v1/lists/{name}",
            get(data::get_list).put(data::set_list).delete(data::remove_list),
        )
        .route("/v1/lists/{name}/entries", post(data::add_entries).delete(data::remove_entries))
        .layer(from_fn_with_state(context.clone(), elsewhere::answer))
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
