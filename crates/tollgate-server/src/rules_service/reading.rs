//! Reading requests: what they ask, what they bring, and under which condition. Whatever is wrong
//! with one is answered as a problem, a misspelt parameter included: who writes `dryrun` must not
//! find that it was none.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::MAX_BODY;
use super::change::Author;
use super::problem::{Problem, Result};

/// Who asks; put there by the guard.
#[derive(Clone, Debug)]
pub(crate) struct Caller(pub(crate) Author);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "who asks?"))
    }
}

/// The names in an address.
#[derive(Clone, Debug)]
pub(crate) struct InPath<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<InPath<T>> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        let Path(names) = read.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(InPath(names))
    }
}

/// The parameters of a query.
#[derive(Clone, Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked<T>> {
        let read = Query::try_from_uri(&parts.uri);
        let Query(asked) = read.map_err(|error| Problem::bad_request(error.body_text()))?;
        Ok(Asked(asked))
    }
}

/// Parameters of every change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Changing {
    pub(crate) dry_run: bool,
}

/// A body that is text.
#[derive(Clone, Debug)]
pub(crate) struct Text(pub(crate) String);

impl<S: Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Text> {
        let body = axum::body::to_bytes(request.into_body(), MAX_BODY).await;
        let body = body.map_err(|error| {
            let cause = std::error::Error::source(&error);
            if cause.is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>()) {
                let detail = format!("the body is larger than {MAX_BODY} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
            } else {
                Problem::bad_request("the body ended too early")
            }
        })?;
        let text = String::from_utf8(body.into());
        Ok(Text(text.map_err(|_| Problem::bad_request("the body is not a text in UTF-8"))?))
    }
}

/// A body that is JSON, whatever its content type says.
#[derive(Clone, Debug)]
pub(crate) struct Document<T>(pub(crate) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Document<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Document<T>> {
        let Text(text) = Text::from_request(request, state).await?;
        let read = serde_json::from_str(&text);
        read.map(Document).map_err(|error| Problem::bad_request(format!("the body: {error}")))
    }
}

/// `If-Match` and `If-None-Match: *`: which version a change is a change of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Precondition {
    /// Any of these, or any at all if it is empty.
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
        let must_be_new = match tags(headers, &IF_NONE_MATCH)? {
            None => false,
            Some(tags) if tags == ["*"] => true,
            Some(_) => return Err(Problem::bad_request("If-None-Match can only be * here")),
        };
        let versions = tags(headers, &IF_MATCH)?;
        if must_be_new && versions.is_some() {
            return Err(Problem::bad_request("If-Match and If-None-Match contradict each other"));
        }
        let any = |tags: &Vec<String>| tags.iter().any(|tag| tag == "*");
        let versions = versions.map(|tags| if any(&tags) { Vec::new() } else { tags });
        Ok(Precondition { versions, must_be_new })
    }

    /// Whether the request has one at all.
    pub(crate) fn is_given(&self) -> bool {
        self.must_be_new || self.versions.is_some()
    }

    /// Whether it holds for what there is. Without one only what is not there may be written,
    /// unless it is a dry run, which loses nobody's change.
    pub(crate) fn check(&self, current: Option<String>, dry_run: bool) -> Result<()> {
        match (&self.versions, current) {
            (None, None) => Ok(()),
            (None, Some(current)) if self.must_be_new => {
                Err(Problem::stale("it exists already", Some(current)))
            }
            (None, Some(_)) if dry_run => Ok(()),
            (None, Some(current)) => Err(Problem::unconditional(current)),
            (Some(_), None) => Err(Problem::stale("there is none to replace", None)),
            (Some(tags), Some(current)) if tags.is_empty() || tags.contains(&current) => Ok(()),
            (Some(_), Some(current)) => {
                let detail = "somebody else changed it in the meantime: read it again";
                Err(Problem::stale(detail, Some(current)))
            }
        }
    }
}

/// The entity tags in a header; `*` stands for itself.
pub(crate) fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Vec<String>>> {
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
    fn a_version_is_only_replaced_by_who_knows_it() {
        let current = || Some("\"2-b\"".to_owned());
        let none = Precondition::default();
        assert_eq!(status(none.check(None, false)), 200);
        assert_eq!(status(none.check(current(), false)), 428);
        assert_eq!(status(none.check(current(), true)), 200);

        let right = precondition(IF_MATCH, "\"1-a\", \"2-b\"").unwrap();
        assert_eq!(status(right.check(current(), false)), 200);
        assert_eq!(status(right.check(None, false)), 412);
        // A weak tag says "much the same", which is not enough to overwrite something.
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
