//! Routes for rules of an external origin: the active rules can be read here but not changed.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate_rules::Source;

use super::RoutesContext;
use crate::problem::Problem;
use crate::rules_service::short_name;
use crate::store::AnyLimiter;

/// The external origin of the active rules.
#[derive(Clone, Debug)]
pub(crate) struct ExternalOrigin {
    /// The path or the URL.
    pub(crate) origin: String,
    /// Whether overrides, lists, bans and modes come from the origin too.
    pub(crate) has_data: bool,
    /// The limiter with the active rules.
    pub(crate) limiter: AnyLimiter,
}

pub(super) async fn answer(
    State(context): State<RoutesContext>,
    request: Request,
    next: Next,
) -> Response {
    let answered = context.external.as_ref().and_then(|external| external.answer(&request));
    match answered {
        Some(response) => response,
        None => next.run(request).await,
    }
}

impl ExternalOrigin {
    /// Answers a request that the database cannot answer; returns `None` for all others.
    fn answer(&self, request: &Request) -> Option<Response> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut parts = request.uri().path().trim_start_matches("/v1/").split('/');
        match (parts.next()?, parts.next(), parts.next()) {
            ("rules", Some("bundle"), None) if !self.has_data => None,
            ("rules", None, None) if reads => Some(self.list().into_response()),
            ("rules", Some(name), None) if reads && name != "bundle" => Some(self.text(name)),
            ("rules", ..) => Some(self.refusal("rules")),
            // Bans imposed by ladders belong to this server.
            ("bans", None, None) if reads || *request.method() == Method::DELETE => None,
            (what @ ("overrides" | "lists" | "bans" | "modes"), ..) if self.has_data => {
                Some(self.refusal(what))
            }
            _ => None,
        }
    }

    fn list(&self) -> axum::Json<Value> {
        let rules = self.limiter.rules();
        let file =
            |source: &Source| json!({ "name": short_name(source), "bytes": source.text.len() });
        let files: Vec<Value> = rules.sources().iter().map(file).collect();
        axum::Json(json!({ "files": files, "origin": self.origin }))
    }

    fn text(&self, name: &str) -> Response {
        let rules = self.limiter.rules();
        match rules.sources().iter().find(|source| short_name(source) == name) {
            Some(source) => {
                let yaml = HeaderValue::from_static("application/yaml");
                ([(CONTENT_TYPE, yaml)], source.text.clone()).into_response()
            }
            None => {
                let name = name.escape_debug();
                Problem::not_found(format_args!("rules file `{name}`")).into_response()
            }
        }
    }

    fn refusal(&self, what: &str) -> Response {
        let ExternalOrigin { origin, .. } = self;
        let detail = format!("the {what} of this server come from {origin}; change them there");
        Problem::new(StatusCode::CONFLICT, "rules-elsewhere", detail).into_response()
    }
}
