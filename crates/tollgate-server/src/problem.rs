//! The error of every HTTP API of the server, answered as `application/problem+json`.
//!
//! [`ProblemDocument`] writes the document; here are the statuses and codes of our own errors.

use std::fmt;

use axum::response::IntoResponse;
use bytes::Bytes;
use hyper::header::{ETAG, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use rusqlite::ErrorCode;
use serde_json::{Value, json};
use tollgate_rules::Diagnostics;
use tollgate_tower::problem::ProblemDocument;

use crate::bundle::BundleError;
use crate::live_tokens::AccessRefusal;
use crate::net::http::ReadBodyError;

/// The code of a call with a token that the server does not have.
const INVALID_TOKEN: &str = "invalid-token";

/// An error that is answered to the client instead of a result.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    code: &'static str,
    detail: String,
    /// The field of the request that is wrong.
    field: Option<Box<str>>,
    /// The current version, where the request expected another one.
    etag: Option<Box<str>>,
    findings: Vec<Value>,
    /// All findings as text for a terminal.
    rendered: Option<Box<str>>,
}

pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        let detail = detail.into();
        let (field, etag, findings, rendered) = (None, None, Vec::new(), None);
        Problem { status, code, detail, field, etag, findings, rendered }
    }

    /// Names the field of the request that is wrong.
    pub(crate) fn about(self, field: impl Into<Box<str>>) -> Problem {
        Problem { field: Some(field.into()), ..self }
    }

    /// Replaces the status.
    pub(crate) fn with_status(self, status: StatusCode) -> Problem {
        Problem { status, ..self }
    }

    /// Places the problem inside `outer`, such as one request of a batch.
    pub(crate) fn within(self, outer: &str) -> Problem {
        let field = match &self.field {
            Some(field) => format!("{outer}.{field}"),
            None => outer.to_owned(),
        };
        Problem { detail: format!("{outer}: {}", self.detail), ..self }.about(field)
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    pub(crate) fn not_found(what: impl fmt::Display) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not-found", format!("there is no {what}"))
    }

    /// Creates the answer to a call whose token is missing, wrong, or has too few rights.
    pub(crate) fn refused_access(refusal: AccessRefusal) -> Problem {
        let detail = refusal.detail("Authorization: Bearer …");
        match refusal {
            AccessRefusal::NoToken(_) => {
                Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            }
            AccessRefusal::WrongToken => {
                Problem::new(StatusCode::UNAUTHORIZED, INVALID_TOKEN, detail)
            }
            AccessRefusal::WrongRole(..) => {
                Problem::new(StatusCode::FORBIDDEN, "forbidden", detail)
            }
        }
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }

    /// Describes a mistake in the element that the request adds by its field alone: the position
    /// among the stored elements means nothing to the caller.
    pub(crate) fn about_new_element(self, element: &str) -> Problem {
        let text = |name: &str| self.findings.first().and_then(|finding| finding[name].as_str());
        let (Some(path), Some(message)) = (text("element"), text("message")) else { return self };
        let Some(field) = path.strip_prefix(element) else { return self };
        let (detail, field) = match field.trim_start_matches('.') {
            "" => (format!("nothing was changed: {message}"), None),
            field => (format!("nothing was changed: `{field}`: {message}"), Some(field.into())),
        };
        Problem { detail, field, ..self }
    }

    /// Creates the answer to a request whose body was not read.
    pub(crate) fn unread_body(error: ReadBodyError) -> Problem {
        match error {
            ReadBodyError::TooLarge(max_bytes) => {
                let detail = format!("the body has more than {max_bytes} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail)
            }
            ReadBodyError::NoMemory => Problem::busy(
                "too many bodies of this client are being received; send fewer at the same time",
            ),
            ReadBodyError::Late => {
                let detail = "the body did not come in time";
                Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
            }
            ReadBodyError::Malformed => {
                Problem::bad_request("the body ended early or is not written as its head says")
            }
        }
    }

    /// Creates the answer to a precondition that does not hold; `current` is the current version.
    pub(crate) fn stale(detail: impl Into<String>, current: Option<String>) -> Problem {
        let problem = Problem::new(StatusCode::PRECONDITION_FAILED, "stale", detail);
        Problem { etag: current.map(Into::into), ..problem }
    }

    /// Creates the answer to a change that lacks its precondition.
    pub(crate) fn unconditional(current: String) -> Problem {
        let detail = "the resource exists: name the version that you replace with If-Match, so that no change \
                      is lost";
        let problem =
            Problem::new(StatusCode::PRECONDITION_REQUIRED, "precondition-required", detail);
        Problem { etag: Some(current.into()), ..problem }
    }

    /// Returns the problem document.
    pub(crate) fn document(&self) -> ProblemDocument<'_> {
        let mut document = ProblemDocument::new(self.status, self.code, &self.detail);
        document.field = self.field.as_deref();
        document.etag = self.etag.as_deref();
        document.findings = &self.findings;
        document.rendered = self.rendered.as_deref();
        document
    }

    /// Returns the response: the document, and the headers that belong to its status.
    pub(crate) fn to_response(&self) -> Response<Bytes> {
        let mut response = self.document().to_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                // RFC 6750: a request without a token gets no error code.
                let challenge = match self.code == INVALID_TOKEN {
                    true => "Bearer error=\"invalid_token\"",
                    false => "Bearer",
                };
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
            _ => {}
        }
        if let Some(etag) = self.etag.as_deref().and_then(|etag| HeaderValue::from_str(etag).ok()) {
            headers.insert(ETAG, etag);
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.to_response().map(Into::into)
    }
}

/// Returns findings as JSON objects: severity, code, file, line, column, snippet, help.
pub(crate) fn findings(found: &Diagnostics) -> Vec<Value> {
    found.findings().map(|finding| json!(finding)).collect()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rendered.as_deref().unwrap_or(&self.detail))
    }
}

impl From<BundleError> for Problem {
    fn from(error: BundleError) -> Problem {
        let invalid = |detail: String| {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-rules", detail)
        };
        match error {
            BundleError::Files(found) => {
                let count = found.errors().count();
                let s = if count == 1 { "" } else { "s" };
                let detail = format!("nothing was changed: {count} error{s} in the rules");
                let (findings, rendered) = (findings(&found), Some(found.render(false).into()));
                Problem { findings, rendered, ..invalid(detail) }
            }
            BundleError::Data(error) => {
                let finding = json!({
                    "severity": "error",
                    "code": "invalid-data",
                    "message": error.message,
                    "element": error.element,
                });
                let detail = format!("nothing was changed: {error}");
                Problem { findings: vec![finding], ..invalid(detail) }
            }
        }
    }
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Problem {
        let unavailable = |detail: &str| {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "database-unavailable", detail)
        };
        tracing::error!(%error, "the rules database");
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "disk-full",
                "nothing was changed: the disk of the rules service is full, or its database has \
                 reached the size it may have",
            ),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                unavailable("nothing was changed: the rules database cannot be written to")
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                unavailable("nothing was changed: the rules database is in use; try again")
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                unavailable("nothing was changed: the rules database is damaged; restore a backup")
            }
            Some(ErrorCode::SystemIoFailure) => {
                unavailable("nothing was changed: the disk of the rules service fails")
            }
            _ => Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "nothing was changed: the rules database answered with an error; see the log",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_database_is_reported_as_unavailable() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (a); PRAGMA query_only = ON;").unwrap();
        let problem = Problem::from(db.execute("INSERT INTO t VALUES (1)", []).unwrap_err());
        assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.to_string().contains("cannot be written to"));
    }
}
