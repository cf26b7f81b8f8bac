//! What went wrong, as `application/problem+json` (RFC 9457): a code for programs, a sentence for
//! people.

use std::fmt;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use rusqlite::ErrorCode;
use serde_json::{Value, json};
use tollgate::rules::Diagnostics;

use crate::bundle::BundleError;

/// An answer that is not what was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    code: &'static str,
    detail: String,
    /// What of the request it is about.
    field: Option<Box<str>>,
    /// The version there is, where another one was expected.
    etag: Option<Box<str>>,
    findings: Vec<Value>,
    /// Every finding as people read it.
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

    /// The same about one field of the request.
    pub(crate) fn about(self, field: impl Into<Box<str>>) -> Problem {
        Problem { field: Some(field.into()), ..self }
    }

    /// The same under another status.
    pub(crate) fn with_status(self, status: StatusCode) -> Problem {
        Problem { status, ..self }
    }

    /// The same about a field of `outer`.
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

    pub(crate) fn busy(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }

    /// The precondition does not hold; `current` is the version there is.
    pub(crate) fn stale(detail: impl Into<String>, current: Option<String>) -> Problem {
        let problem = Problem::new(StatusCode::PRECONDITION_FAILED, "stale", detail);
        Problem { etag: current.map(Into::into), ..problem }
    }

    /// A precondition is needed.
    pub(crate) fn unconditional(current: String) -> Problem {
        let detail = "it exists: say which version you replace with If-Match, so that nobody's \
                      change is lost";
        let problem =
            Problem::new(StatusCode::PRECONDITION_REQUIRED, "precondition-required", detail);
        Problem { etag: Some(current.into()), ..problem }
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "type": format!("urn:tollgate:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
        });
        if let Some(field) = &self.field {
            body["field"] = json!(field);
        }
        if let Some(etag) = &self.etag {
            body["etag"] = json!(etag);
        }
        if !self.findings.is_empty() {
            body["findings"] = json!(self.findings);
        }
        if let Some(rendered) = &self.rendered {
            body["rendered"] = json!(rendered);
        }
        body
    }
}

/// Findings for programs: severity, code, file, line, column, snippet, help.
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

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        if let Some(etag) = self.etag.and_then(|etag| HeaderValue::from_str(&etag).ok()) {
            headers.insert(ETAG, etag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_cannot_be_written_to_is_not_our_mistake() {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (a); PRAGMA query_only = ON;").unwrap();
        let problem = Problem::from(db.execute("INSERT INTO t VALUES (1)", []).unwrap_err());
        assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(problem.to_string().contains("cannot be written to"));
    }
}
