//! Request extractors of the HTTP API: path, query, body, caller and precondition.
//!
//! Every error becomes a problem document. An unknown query parameter is an error, so that a
//! misspelt `dryrun` does not make a real change.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::MAX_BODY;
use super::change::Author;
use crate::net::BodyMemory;
use crate::net::http::read_body;
use crate::problem::{Problem, Result};

/// The authenticated caller, inserted by the token guard.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Author);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| {
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "a token is needed")
        })
    }
}

/// The parameters of the path of a URL.
#[derive(Clone, Debug)]
pub(crate) struct UrlPath<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for UrlPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<UrlPath<T>> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        let Path(names) = read.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(UrlPath(names))
    }
}

/// The parameters of the query of a URL.
#[derive(Clone, Debug)]
pub(crate) struct UrlQuery<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<UrlQuery<T>> {
        let read = Query::try_from_uri(&parts.uri);
        let Query(parameters) = read.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(UrlQuery(parameters))
    }
}

/// The query parameters of every change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChangeQuery {
    pub(crate) dry_run: bool,
}

/// A request body in UTF-8.
#[derive(Clone, Debug)]
pub(crate) struct TextBody(pub(crate) String);

impl<S: Sync> FromRequest<S> for TextBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<TextBody> {
        let memory = request.extensions().get::<BodyMemory>().cloned();
        let memory = memory.ok_or_else(|| Problem::busy("this door reads no bodies"))?;
        // The guard has a timeout for the whole request.
        let body = read_body(request.into_body(), &memory, MAX_BODY, Duration::MAX).await;
        let (body, _reservation) = body.map_err(Problem::unread_body)?.into_parts();
        let text = String::from_utf8(body.into());
        Ok(TextBody(text.map_err(|_| Problem::bad_request("the body is not UTF-8"))?))
    }
}

/// A request body in JSON, whatever its content type.
#[derive(Clone, Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>> {
        let TextBody(text) = TextBody::from_request(request, state).await?;
        let read = serde_json::from_str(&text);
        read.map(JsonBody).map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }
}

/// The precondition of a change: `If-Match`, or `If-None-Match: *`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Precondition {
    /// The accepted versions; an empty list accepts every version.
    versions: Option<Vec<String>>,
    must_be_new: bool,
}

impl<S: Sync> FromRequestParts<S> for Precondition {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Precondition> {
        Precondition::read(&parts.headers)
    }
}

impl Precondition {
    fn read(headers: &HeaderMap) -> Result<Precondition> {
        let must_be_new = match entity_tags(headers, &IF_NONE_MATCH)? {
            None => false,
            Some(tags) if tags == ["*"] => true,
            Some(_) => return Err(Problem::bad_request("If-None-Match can only be * here")),
        };
        let versions = entity_tags(headers, &IF_MATCH)?;
        if must_be_new && versions.is_some() {
            return Err(Problem::bad_request("If-Match and If-None-Match contradict each other"));
        }
        let any = |tags: &Vec<String>| tags.iter().any(|tag| tag == "*");
        let versions = versions.map(|tags| if any(&tags) { Vec::new() } else { tags });
        Ok(Precondition { versions, must_be_new })
    }

    /// Returns whether the request has a precondition.
    pub(crate) fn is_given(&self) -> bool {
        self.must_be_new || self.versions.is_some()
    }

    /// Checks the precondition against the current version.
    ///
    /// Without a precondition only new objects may be written, so that no concurrent change is lost.
    /// A dry run may always replace.
    pub(crate) fn check(&self, current: Option<String>, dry_run: bool) -> Result<()> {
        match (&self.versions, current) {
            (None, None) => Ok(()),
            (None, Some(current)) if self.must_be_new => {
                Err(Problem::stale("the object already exists", Some(current)))
            }
            (None, Some(_)) if dry_run => Ok(()),
            (None, Some(current)) => Err(Problem::unconditional(current)),
            (Some(_), None) => Err(Problem::stale("the object does not exist", None)),
            (Some(tags), Some(current)) if tags.is_empty() || tags.contains(&current) => Ok(()),
            (Some(_), Some(current)) => {
                let detail = "the object has changed in the meantime; read it again";
                Err(Problem::stale(detail, Some(current)))
            }
        }
    }
}

/// Returns the entity tags in a header; `*` is returned as it is.
pub(crate) fn entity_tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>> {
    let mut tags = None;
    for value in headers.get_all(name) {
        let unreadable = |_| Problem::bad_request(format!("{name} cannot be read"));
        let value = value.to_str().map_err(unreadable)?;
        let tags = tags.get_or_insert_with(Vec::new);
        tags.extend(value.split(',').map(|tag| tag.trim().to_owned()).filter(|t| !t.is_empty()));
    }
    Ok(tags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn precondition(name: HeaderName, value: &str) -> Result<Precondition> {
        let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
        Precondition::read(&headers)
    }

    fn status(outcome: Result<()>) -> u16 {
        outcome.map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    #[test]
    fn replacing_a_version_requires_its_entity_tag() {
        let current = || Some("\"2-b\"".to_owned());
        let none = Precondition::default();
        assert_eq!(status(none.check(None, false)), 200);
        assert_eq!(status(none.check(current(), false)), 428);
        assert_eq!(status(none.check(current(), true)), 200);

        let right = precondition(IF_MATCH, "\"1-a\", \"2-b\"").unwrap();
        assert_eq!(status(right.check(current(), false)), 200);
        assert_eq!(status(right.check(None, false)), 412);
        // A weak tag promises only similarity, which is not enough to overwrite a version.
        let weak = precondition(IF_MATCH, "W/\"2-b\"").unwrap();
        assert_eq!(status(weak.check(current(), false)), 412);
        let stale = precondition(IF_MATCH, "\"1-a\"").unwrap();
        assert_eq!(status(stale.check(current(), true)), 412);
        let any = precondition(IF_MATCH, "*").unwrap();
        assert_eq!(status(any.check(current(), false)), 200);

        let new = precondition(IF_NONE_MATCH, "*").unwrap();
        assert_eq!(status(new.check(None, false)), 200);
        assert_eq!(status(new.check(current(), false)), 412);
        assert!(precondition(IF_NONE_MATCH, "\"1-a\"").is_err());
    }
}
