//! `application/problem+json` (RFC 9457): the only writer of problem documents and of refusals.
//!
//! [`ProblemDocument`] is the body of every error that tollgate answers over HTTP. The document of a
//! refused request has the problem types of the IETF's draft on rate limits; [`refusal`] makes the
//! whole response of it, [`refusal_to`] also for gRPC.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use tollgate::HumanDuration;
use tollgate_rules::Reason;

use crate::grpc::{self, Status, StatusDetail, Violation, code};
use crate::headers::{DecisionSummary, HeaderStyle, write};

const REGISTERED_TYPES: &str = "https://iana.org/assignments/http-problem-types#";
const OWN_TYPES: &str = "urn:tollgate:";

/// The maximum number of limits that one gRPC refusal names, because header size is bounded.
const MAX_VIOLATIONS: usize = 8;

/// A problem document: what went wrong, with a code for programs and a sentence for people.
///
/// The members are written in alphabetical order; empty ones are left out.
///
/// ```
/// use http::StatusCode;
/// use tollgate_tower::problem::ProblemDocument;
///
/// let problem = ProblemDocument::new(StatusCode::NOT_FOUND, "not-found", "there is no rule \"a\"");
/// assert_eq!(
///     problem.to_json(),
///     r#"{"code":"not-found","detail":"there is no rule \"a\"","status":404,"title":"Not Found","type":"urn:tollgate:not-found"}"#
/// );
/// assert_eq!(problem.to_response().headers()["content-type"], "application/problem+json");
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProblemDocument<'a> {
    /// The kind of problem, for programs.
    pub code: &'a str,
    /// A sentence about this occurrence, for people.
    pub detail: Cow<'a, str>,
    /// The current version of a resource whose precondition failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<&'a str>,
    /// The field of the request that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'a str>,
    /// Errors and warnings about rules, one object each.
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    pub findings: &'a [Value],
    /// The reason of the decision, if this is a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
    /// All findings as text for a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered: Option<&'a str>,
    /// The time until a retry can succeed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The rule that refused the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'a str>,
    /// The HTTP status.
    pub status: u16,
    /// A short summary of the kind of problem.
    pub title: &'a str,
    /// The URI of the kind of problem.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// The names of the limits that refuse the request.
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    pub violated_policies: Vec<String>,
}

impl<'a> ProblemDocument<'a> {
    /// Creates the document of an error of tollgate's own type, `urn:tollgate:CODE`.
    pub fn new(
        status: StatusCode,
        code: &'a str,
        detail: impl Into<Cow<'a, str>>,
    ) -> ProblemDocument<'a> {
        ProblemDocument {
            code,
            detail: detail.into(),
            etag: None,
            field: None,
            findings: &[],
            reason: None,
            rendered: None,
            retry_after_ms: None,
            rule: None,
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error"),
            type_uri: format!("{OWN_TYPES}{code}"),
            violated_policies: Vec::new(),
        }
    }

    /// Creates the document that explains a refused request to its client.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// use tollgate_tower::headers::DecisionSummary;
    /// use tollgate_tower::problem::ProblemDocument;
    ///
    /// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/min }]".parse()?);
    /// let request = Request::new("GET", "/");
    /// assert!(limiter.decide_now(&request).allowed);
    /// let body = ProblemDocument::from_refusal(&DecisionSummary::new(&limiter.decide_now(&request))).to_json();
    /// assert!(body.starts_with(r#"{"code":"quota-exceeded""#));
    /// assert!(body.contains(r#""violated-policies":["api"]"#));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn from_refusal(summary: &DecisionSummary<'a>) -> ProblemDocument<'a> {
        let problem_type = RefusalType::new(summary);
        let over = summary.policies().filter(|(_, limit)| !limit.allowed);
        ProblemDocument {
            code: problem_type.code,
            detail: refusal_detail(summary).into(),
            etag: None,
            field: None,
            findings: &[],
            reason: Some(summary.reason.as_str()),
            rendered: None,
            retry_after_ms: summary.retry_after_ms,
            rule: summary.rule,
            status: summary.code,
            title: problem_type.title,
            type_uri: problem_type.uri(),
            violated_policies: over.map(|(name, _)| name.to_string()).collect(),
        }
    }

    /// Returns the document as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns a response with the document as its body and nothing but the content type as header.
    pub fn to_response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::from(self.to_json()));
        // Only a rule can name a status that HTTP does not have, and rules refuse.
        let status = StatusCode::from_u16(self.status);
        *response.status_mut() = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
        let content_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }
}

/// The type of a refusal: registered by the IETF's draft, or tollgate's own.
struct RefusalType {
    registered: bool,
    code: &'static str,
    title: &'static str,
}

impl RefusalType {
    fn new(summary: &DecisionSummary<'_>) -> RefusalType {
        let (registered, code, title) = match summary.reason {
            _ if summary.banned => (
                true,
                "abnormal-usage-detected",
                "Request not satisfied due to detection of abnormal request pattern",
            ),
            _ if summary.code == 503 => (
                true,
                "temporary-reduced-capacity",
                "Request cannot be satisfied due to temporary server capacity constraints",
            ),
            Reason::DeniedByRule => (false, "denied-by-rule", "A rule refuses this request"),
            Reason::KeyMissing => {
                (false, "key-missing", "The request lacks an attribute that a rule counts by")
            }
            _ => (
                true,
                "quota-exceeded",
                "Request cannot be satisfied as assigned quota has been exceeded",
            ),
        };
        RefusalType { registered, code, title }
    }

    fn uri(&self) -> String {
        let prefix = if self.registered { REGISTERED_TYPES } else { OWN_TYPES };
        format!("{prefix}{}", self.code)
    }
}

/// The sentence that explains a refusal, in problem documents and in gRPC messages.
fn refusal_detail(summary: &DecisionSummary<'_>) -> String {
    let by = summary.rule.map(|rule| format!(" by the rule {rule:?}")).unwrap_or_default();
    match (summary.reason, summary.retry_after_s()) {
        (Reason::NeverFits, _) => format!("refused{by}: it asks for more than the limit can hold"),
        (Reason::StoreFailed, _) => format!("refused{by}: the counters could not be asked"),
        (_, Some(seconds)) => {
            let wait = HumanDuration(Duration::from_secs(seconds));
            format!("refused{by}: come back in {wait}")
        }
        (_, None) => format!("refused{by}"),
    }
}

/// Returns the response to a refused request: status, rate-limit headers and problem document.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
/// use tollgate_tower::headers::{DecisionSummary, HeaderStyle};
/// use tollgate_tower::problem::refusal;
///
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/min }]".parse()?);
/// let request = Request::new("GET", "/");
/// assert!(limiter.decide_now(&request).allowed);
/// let response = refusal(HeaderStyle::Draft10, &DecisionSummary::new(&limiter.decide_now(&request)), 0);
/// assert_eq!(response.status(), 429);
/// assert_eq!(response.headers()["retry-after"], "60");
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
pub fn refusal(style: HeaderStyle, summary: &DecisionSummary<'_>, unix_s: u64) -> Response<Bytes> {
    let mut response = ProblemDocument::from_refusal(summary).to_response();
    write(style, summary, unix_s, response.headers_mut());
    response
}

/// Returns the response to a refused request with another status than that of the decision.
///
/// The document has that status too (RFC 9457), and the type of the refusal.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
/// use tollgate_tower::headers::{DecisionSummary, HeaderStyle};
/// use tollgate_tower::problem::refusal_with_status;
///
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/min }]".parse()?);
/// let request = Request::new("GET", "/");
/// assert!(limiter.decide_now(&request).allowed);
/// let decision = limiter.decide_now(&request);
/// let summary = DecisionSummary::new(&decision);
/// let response = refusal_with_status(HeaderStyle::Draft10, &summary, 0, http::StatusCode::FORBIDDEN);
/// assert_eq!(response.status(), 403);
/// assert!(std::str::from_utf8(response.body()).unwrap().contains(r#""status":403"#));
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
pub fn refusal_with_status(
    style: HeaderStyle,
    summary: &DecisionSummary<'_>,
    unix_s: u64,
    status: StatusCode,
) -> Response<Bytes> {
    let mut document = ProblemDocument::from_refusal(summary);
    document.status = status.as_u16();
    let mut response = document.to_response();
    write(style, summary, unix_s, response.headers_mut());
    response
}

/// Returns the response to a refused request in its own protocol, gRPC or plain HTTP.
///
/// `request_headers` decide which of the two it is. A refused gRPC call is answered with a status
/// alone: `RESOURCE_EXHAUSTED`, with `RetryInfo` and `QuotaFailure` as its details; `UNAVAILABLE`
/// where HTTP says 503, `PERMISSION_DENIED` where it says 403.
///
/// ```
/// use tollgate_rules::RuleLimiter;
/// use tollgate_tower::request_head::RequestHead;
/// use tollgate_tower::headers::{DecisionSummary, HeaderStyle};
/// use tollgate_tower::problem::refusal_to;
///
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/min }]".parse()?);
/// let call = http::Request::post("/shop.Cart/Add").header("content-type", "application/grpc");
/// let (head, ()) = call.body(())?.into_parts();
/// let decide = || limiter.decide_now(&RequestHead::new(&head).request());
/// assert!(decide().allowed);
/// let response = refusal_to(&head.headers, HeaderStyle::Draft10, &DecisionSummary::new(&decide()), 0);
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["grpc-status"], "8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn refusal_to(
    request_headers: &HeaderMap,
    style: HeaderStyle,
    summary: &DecisionSummary<'_>,
    unix_s: u64,
) -> Response<Bytes> {
    match grpc::is_grpc(request_headers) {
        true => grpc_refusal(request_headers, style, summary, unix_s),
        false => refusal(style, summary, unix_s),
    }
}

fn grpc_refusal(
    request_headers: &HeaderMap,
    style: HeaderStyle,
    summary: &DecisionSummary<'_>,
    unix_s: u64,
) -> Response<Bytes> {
    let status = grpc_status(summary);
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    // gRPC-Web has content types of its own, so the response repeats the client's.
    headers.extend(request_headers.get(CONTENT_TYPE).map(|kind| (CONTENT_TYPE, kind.clone())));
    headers.insert(grpc::STATUS, HeaderValue::from(status.code));
    for (name, text) in
        [(grpc::MESSAGE, grpc::grpc_message(&status.message)), (grpc::DETAILS, status.to_header())]
    {
        headers.extend(HeaderValue::try_from(text).ok().map(|value| (name, value)));
    }
    write(style, summary, unix_s, headers);
    response
}

/// Returns the response to an error of the server: the problem document, or a status of gRPC.
pub(crate) fn error_to(
    request_headers: &HeaderMap,
    problem: &ProblemDocument<'_>,
) -> Response<Bytes> {
    if !grpc::is_grpc(request_headers) {
        return problem.to_response();
    }
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.extend(request_headers.get(CONTENT_TYPE).map(|kind| (CONTENT_TYPE, kind.clone())));
    headers.insert(grpc::STATUS, HeaderValue::from(code::INTERNAL));
    let message = HeaderValue::try_from(grpc::grpc_message(&problem.detail)).ok();
    headers.extend(message.map(|message| (grpc::MESSAGE, message)));
    response
}

fn grpc_status(summary: &DecisionSummary<'_>) -> Status {
    let code = match summary.code {
        401 => code::UNAUTHENTICATED,
        403 => code::PERMISSION_DENIED,
        502..=504 => code::UNAVAILABLE,
        _ => code::RESOURCE_EXHAUSTED,
    };
    let message = refusal_detail(summary);
    let mut details = Vec::new();
    if let Some(millis) = summary.retry_after_ms {
        details.push(StatusDetail::retry_after(Duration::from_millis(millis)));
    }
    if matches!(summary.reason, Reason::OverLimit | Reason::NeverFits) {
        let over = summary.policies().filter(|(_, limit)| !limit.allowed).take(MAX_VIOLATIONS);
        let violations = over.map(|(name, _)| Violation {
            subject: format!("rule:{name}"),
            description: message.clone(),
        });
        details.push(StatusDetail::quota_failure(violations.collect()));
    }
    Status { code, message, details }
}

#[cfg(test)]
mod tests;
