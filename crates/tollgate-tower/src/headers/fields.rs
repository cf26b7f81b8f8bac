//! The rate-limit header fields, in several styles.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use smallvec::SmallVec;
use tollgate_rules::Decision;

use super::merge;
use super::quota_policy::MAX_NUMBER;
use super::style::HeaderStyle;
use super::summary::{
    DecisionSummary, LimitStatus, PolicyName, limit_statuses, policies, tightest,
};
use super::value_cache;

pub(super) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const DRAFT_6: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
pub(super) const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Writes the rate-limit headers, and `Retry-After` for a refused request. `unix_s` is the time in
/// seconds since 1970: the legacy style has times where the others have durations.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_rules::{Request, RuleLimiter};
/// use tollgate_tower::headers::{DecisionSummary, HeaderStyle, write};
///
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/min fixed }]".parse()?);
/// let request = Request::new("GET", "/");
/// assert!(limiter.decide_now(&request).allowed);
/// let refused = limiter.decide_now(&request);
/// let mut headers = HeaderMap::new();
/// write(HeaderStyle::Draft6, &DecisionSummary::new(&refused), 0, &mut headers);
/// assert_eq!(headers["ratelimit-policy"], "1;w=60");
/// assert!(headers.contains_key("retry-after"));
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
pub fn write(
    style: HeaderStyle,
    summary: &DecisionSummary<'_>,
    unix_s: u64,
    headers: &mut HeaderMap,
) {
    ResponseHeaders::new(style, summary, unix_s).write(headers);
}

/// The rate-limit headers of a decision, to be written once there is a response.
///
/// ```
/// use http::HeaderMap;
/// use tollgate_rules::{Request, RuleLimiter};
/// use tollgate_tower::headers::{DecisionSummary, HeaderStyle, ResponseHeaders};
///
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 5/min }]".parse()?);
/// let decision = limiter.decide_now(&Request::new("GET", "/"));
/// let limits = ResponseHeaders::new(HeaderStyle::Draft10, &DecisionSummary::new(&decision), 0);
/// drop(decision); // and later:
/// let mut headers = HeaderMap::new();
/// limits.write(&mut headers);
/// assert_eq!(headers["ratelimit"], r#""api";r=4;t=12"#);
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResponseHeaders(SmallVec<[(HeaderName, HeaderValue); 2]>);

impl ResponseHeaders {
    /// Creates the headers in a style; see [`write()`].
    pub fn new(style: HeaderStyle, summary: &DecisionSummary<'_>, unix_s: u64) -> ResponseHeaders {
        let mut headers = ResponseHeaders::default();
        if !summary.allowed
            && let Some(seconds) = summary.retry_after_s()
        {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        write_limits(style, &summary.limits, unix_s, &mut headers);
        headers
    }

    /// Creates the headers of an allowed request without making a [`DecisionSummary`].
    pub fn allowed(style: HeaderStyle, decision: &Decision, unix_s: u64) -> ResponseHeaders {
        let mut headers = ResponseHeaders::default();
        if style != HeaderStyle::None {
            let limits: SmallVec<[LimitStatus<'_>; 4]> = limit_statuses(decision).collect();
            write_limits(style, &limits, unix_s, &mut headers);
        }
        headers
    }

    /// Writes the headers, replacing fields of the same names.
    pub fn write(self, headers: &mut HeaderMap) {
        for (name, value) in self.0 {
            headers.insert(name, value);
        }
    }

    /// Adds the headers to those that a response has already, from a service or an inner layer.
    ///
    /// Both limits hold, so a client must be told the stricter one. `RateLimit` and
    /// `RateLimit-Policy` are lists, which get the policies of both. Of fields that have room for one
    /// limit, those with the least remaining stay; if that is equal, those with the latest reset.
    /// The longer `Retry-After` stays.
    ///
    /// ```
    /// # use http::HeaderMap;
    /// # use tollgate_rules::{Request, RuleLimiter};
    /// # use tollgate_tower::headers::{DecisionSummary, HeaderStyle, ResponseHeaders};
    /// let mut headers = HeaderMap::new();
    /// headers.insert("ratelimit-remaining", "2".parse().unwrap());
    /// headers.insert("ratelimit-reset", "30".parse().unwrap());
    /// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 5/min }]".parse()?);
    /// let decision = limiter.decide_now(&Request::new("GET", "/"));
    /// let limits = ResponseHeaders::new(HeaderStyle::Draft6, &DecisionSummary::new(&decision), 0);
    /// limits.add(&mut headers);
    /// assert_eq!(headers["ratelimit-remaining"], "2");
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn add(self, headers: &mut HeaderMap) {
        // Most responses have few fields, so comparing names takes less time than looking them up.
        let is_own = |name: &HeaderName| self.0.iter().any(|(own, _)| own == name);
        match headers.keys().any(is_own) {
            false => self.write(headers),
            true => merge::stricter(self.0, headers),
        }
    }

    fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        self.0.push((name, value));
    }
}

fn write_limits(
    style: HeaderStyle,
    limits: &[LimitStatus<'_>],
    unix_s: u64,
    headers: &mut ResponseHeaders,
) {
    if style == HeaderStyle::None {
        return;
    }
    let Some(tightest) = tightest(limits) else { return };
    match style {
        HeaderStyle::None => {}
        HeaderStyle::Draft10 | HeaderStyle::Draft8 => {
            let all = value_cache::policy(limits, || list(limits, policy));
            put(headers, POLICY, all);
            put(headers, RATE_LIMIT, list(limits, service_limit));
        }
        HeaderStyle::Draft6 => {
            let [limit, remaining, reset] = DRAFT_6;
            headers.insert(limit, HeaderValue::from(tightest.limit));
            headers.insert(remaining, HeaderValue::from(tightest.remaining_until_reset()));
            headers.insert(reset, HeaderValue::from(tightest.reset_after_s()));
            put(headers, POLICY, list(limits, |text, _, limit| quota_policy(text, limit)));
        }
        HeaderStyle::Legacy => {
            let [limit, remaining, reset] = LEGACY;
            headers.insert(limit, HeaderValue::from(tightest.limit));
            headers.insert(remaining, HeaderValue::from(tightest.remaining_until_reset()));
            let at = unix_s.saturating_add(tightest.reset_after_s());
            headers.insert(reset, HeaderValue::from(at));
        }
        HeaderStyle::Envoy03 => {
            let [limit, remaining, reset] = LEGACY;
            let all = value_cache::written(|text| {
                number(text, "", tightest.limit);
                for (name, limit) in policies(limits) {
                    text.push_str(", ");
                    quota_policy(text, limit);
                    text.push_str(";name=");
                    quoted(text, name);
                }
            });
            put(headers, limit, all);
            headers.insert(remaining, HeaderValue::from(tightest.remaining_until_reset()));
            headers.insert(reset, HeaderValue::from(tightest.reset_after_s()));
        }
    }
}

/// Quoted text is printable, so it always fits into a header.
fn put(headers: &mut ResponseHeaders, name: HeaderName, value: Option<HeaderValue>) {
    if let Some(value) = value {
        headers.insert(name, value);
    }
}

/// A list of structured fields (RFC 9651), one item for each policy.
fn list(
    limits: &[LimitStatus<'_>],
    item: impl Fn(&mut String, PolicyName<'_>, &LimitStatus<'_>),
) -> Option<HeaderValue> {
    value_cache::written(|text| {
        for (name, limit) in policies(limits) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            item(text, name, limit);
        }
    })
}

/// `"login";q=5;w=60`.
fn policy(text: &mut String, name: PolicyName<'_>, limit: &LimitStatus<'_>) {
    quoted(text, name);
    number(text, ";q=", limit.policy.map_or(limit.limit, |policy| policy.quota));
    match (limit.policy, limit.unit) {
        // Labels are made of letters, digits, `_` and `-`.
        (Some(_), Some(unit)) => text.extend([r#";qu=""#, unit, "\""]),
        (Some(_), None) => {}
        (None, _) => text.push_str(r#";qu="concurrent-requests""#),
    }
    if let Some(policy) = limit.policy {
        number(text, ";w=", policy.seconds);
    }
}

/// `"login";r=3;t=12`.
fn service_limit(text: &mut String, name: PolicyName<'_>, limit: &LimitStatus<'_>) {
    quoted(text, name);
    number(text, ";r=", limit.remaining_until_reset());
    if !limit.is_concurrency() {
        number(text, ";t=", limit.reset_after_s());
    }
}

/// `5;w=60`.
fn quota_policy(text: &mut String, limit: &LimitStatus<'_>) {
    number(text, "", limit.policy.map_or(limit.limit, |policy| policy.quota));
    if let Some(policy) = limit.policy {
        number(text, ";w=", policy.seconds);
    }
}

/// Integers of structured fields have at most 15 digits. Written straight: formatting would cost
/// as much as deciding.
fn number(text: &mut String, before: &str, number: u64) {
    text.push_str(before);
    text.push_str(itoa::Buffer::new().format(number.min(MAX_NUMBER)));
}

/// A string of structured fields: printable ASCII, with `"` and `\` escaped. Other characters are
/// written as in a URL, because a string cannot have them.
fn quoted(text: &mut String, name: PolicyName<'_>) {
    text.push('"');
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if name.rule.bytes().all(is_plain) {
        text.push_str(name.rule);
    } else {
        for byte in name.rule.bytes() {
            match byte {
                b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
                b' '..=b'~' => text.push(char::from(byte)),
                _ => text.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    if name.number > 1 {
        number(text, "-", name.number as u64);
    }
    text.push('"');
}

#[cfg(test)]
mod tests;
