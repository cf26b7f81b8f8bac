//! Rules that come from elsewhere: what is in force can be read here, and changed only there.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use tollgate::rules::Source;

use super::Context;
use crate::rules_service::problem::Problem;
use crate::rules_service::short_name;
use crate::store::AnyLimiter;

/// Where the rules come from.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    /// The path or the URL.
    pub(crate) origin: String,
    /// Whether overrides, lists, bans and modes come from there too.
    pub(crate) data_too: bool,
    /// Who has those in force.
    pub(crate) limiter: AnyLimiter,
}

pub(super) async fn answer(
    State(context): State<Context>,
    request: Request,
    next: Next,
) -> Response {
    let answered = context.elsewhere.as_ref().and_then(|elsewhere| elsewhere.answer(&request));
    match answered {
        Some(response) => response,
        None => next.run(request).await,
    }
}

impl Elsewhere {
    /// The answer to what would otherwise be answered from the database.
    fn answer(&self, request: &Request) -> Option<Response> {
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let mut parts = request.uri().path().trim_start_matches("/v1/").split('/');
        match (parts.next()?, parts.next(), parts.next()) {
            ("rules", Some("bundle"), None) if !self.data_too => None,
            ("rules", None, None) if reads => Some(self.list().into_response()),
            ("rules", Some(name), None) if reads && name != "bundle" => Some(self.text(name)),
            ("rules", ..) => Some(self.refusal("rules")),
            // Those that ladders have given are here.
            ("bans", None, None) if reads || *request.method() == Method::DELETE => None,
            (what @ ("overrides" | "lists" | "bans" | "modes"), ..) if self.data_too => {
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
        let Elsewhere { origin, .. } = self;
        let detail = format!("the {what} of this server come from {origin}: change them there");
        Problem::new(StatusCode::CONFLICT, "rules-elsewhere", detail).into_response()
    }
}
