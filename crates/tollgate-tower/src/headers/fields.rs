//! The rate-limit header fields, in several styles.

use http::HeaderMap;
use http::header::{Entry, HeaderName, HeaderValue, RETRY_AFTER};
use smallvec::SmallVec;
use tollgate_rules::Decision;

use super::style::HeaderStyle;
use super::summary::{
    DecisionSummary, LimitStatus, PolicyName, limit_statuses, policies, tightest,
};
use super::value_cache;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const DRAFT_6: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const LEGACY: [HeaderName; 3] = [
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

    /// Adds the headers to those of an inner layer: lists are extended, other fields stay.
    pub fn add(self, headers: &mut HeaderMap) {
        for (name, value) in self.0 {
            match headers.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert(value)),
                Entry::Occupied(mut headers) if [POLICY, RATE_LIMIT].contains(headers.key()) => {
                    headers.append(value);
                }
                Entry::Occupied(_) => {}
            }
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
            headers.insert(remaining, HeaderValue::from(tightest.remaining));
            headers.insert(reset, HeaderValue::from(tightest.reset_after_s()));
            put(headers, POLICY, list(limits, |text, _, limit| quota_policy(text, limit)));
        }
        HeaderStyle::Legacy => {
            let [limit, remaining, reset] = LEGACY;
            headers.insert(limit, HeaderValue::from(tightest.limit));
            headers.insert(remaining, HeaderValue::from(tightest.remaining));
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
            headers.insert(remaining, HeaderValue::from(tightest.remaining));
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
    number(text, ";q=", limit.limit);
    match limit.window_s {
        Some(seconds) => number(text, ";w=", seconds),
        None => text.push_str(r#";qu="concurrent-requests""#),
    }
}

/// `"login";r=3;t=12`.
fn service_limit(text: &mut String, name: PolicyName<'_>, limit: &LimitStatus<'_>) {
    quoted(text, name);
    number(text, ";r=", limit.remaining);
    if !limit.is_concurrency() {
        number(text, ";t=", limit.reset_after_s());
    }
}

/// `5;w=60`.
fn quota_policy(text: &mut String, limit: &LimitStatus<'_>) {
    number(text, "", limit.limit);
    if let Some(seconds) = limit.window_s {
        number(text, ";w=", seconds);
    }
}

/// Integers of structured fields have at most 15 digits. Written straight: formatting would cost
/// as much as deciding.
fn number(text: &mut String, before: &str, number: u64) {
    text.push_str(before);
    text.push_str(itoa::Buffer::new().format(number.min(999_999_999_999_999)));
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
mod tests {
    use super::*;
    use tollgate_rules::{Mode, Reason};

    fn status(
        rule: &str,
        limit: u64,
        window_s: u64,
        remaining: u64,
        reset_s: u64,
    ) -> LimitStatus<'_> {
        LimitStatus {
            rule: Some(rule),
            limit,
            window_s: Some(window_s),
            remaining,
            reset_after_ms: reset_s * 1000 - 1,
            allowed: true,
            enforced: true,
            mode: Mode::Enforce,
        }
    }

    fn summary<'a>(limits: &[LimitStatus<'a>]) -> DecisionSummary<'a> {
        DecisionSummary {
            allowed: true,
            reason: Reason::WithinLimits,
            code: 200,
            rule: None,
            key: None,
            wait_ms: 0,
            retry_after_ms: None,
            banned: false,
            limits: limits.iter().copied().collect(),
        }
    }

    fn written(style: HeaderStyle, summary: &DecisionSummary<'_>) -> Vec<String> {
        let mut headers = HeaderMap::new();
        write(style, summary, 1_000_000, &mut headers);
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_examples_of_the_tenth_draft() {
        let burst = [status("burst", 100, 60, 50, 30), status("daily", 1000, 86_400, 900, 10)];
        assert_eq!(
            written(HeaderStyle::Draft10, &summary(&burst)),
            [
                r#"ratelimit-policy: "burst";q=100;w=60, "daily";q=1000;w=86400"#,
                r#"ratelimit: "burst";r=50;t=30, "daily";r=900;t=10"#,
            ]
        );
        let places = LimitStatus { window_s: None, ..status("places", 10, 1, 4, 1) };
        assert_eq!(
            written(HeaderStyle::Draft10, &summary(&[places])),
            [
                r#"ratelimit-policy: "places";q=10;qu="concurrent-requests""#,
                r#"ratelimit: "places";r=4"#,
            ]
        );
    }

    #[test]
    fn older_styles_tell_about_the_tightest() {
        let both = [status("login", 5, 60, 3, 12), status("login", 20, 3600, 1, 700)];
        let both = summary(&both);
        assert_eq!(
            written(HeaderStyle::Draft6, &both),
            [
                "ratelimit-limit: 20",
                "ratelimit-policy: 5;w=60, 20;w=3600",
                "ratelimit-remaining: 1",
                "ratelimit-reset: 700",
            ]
        );
        assert_eq!(
            written(HeaderStyle::Legacy, &both),
            ["x-ratelimit-limit: 20", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1000700"]
        );
        assert_eq!(
            written(HeaderStyle::Envoy03, &both),
            [
                r#"x-ratelimit-limit: 20, 5;w=60;name="login", 20;w=3600;name="login-2""#,
                "x-ratelimit-remaining: 1",
                "x-ratelimit-reset: 700",
            ]
        );
        assert!(written(HeaderStyle::None, &both).is_empty());
    }

    #[test]
    fn a_refusal_says_when_to_come_back_in_every_style() {
        let base = summary(&[status("api", 1, 1, 0, 1)]);
        let refused = DecisionSummary { allowed: false, retry_after_ms: Some(1840), ..base };
        for style in [HeaderStyle::Draft10, HeaderStyle::Envoy03, HeaderStyle::None] {
            assert!(written(style, &refused).contains(&"retry-after: 2".to_owned()), "{style:?}");
        }
        let never = DecisionSummary { retry_after_ms: None, ..refused };
        assert!(written(HeaderStyle::None, &never).is_empty());
    }

    #[test]
    fn no_name_breaks_out_of_its_quotes() {
        let odd = "a\"b\\c\r\nSet-Cookie: x\u{1b}[31m\u{e9}";
        let lines = written(HeaderStyle::Draft10, &summary(&[status(odd, 1, 1, 1, 1)]));
        assert_eq!(
            lines[0],
            r#"ratelimit-policy: "a\"b\\c%0D%0ASet-Cookie: x%1B[31m%C3%A9";q=1;w=1"#
        );
    }

    #[test]
    fn rules_in_shadow_and_no_limits_are_not_told() {
        let shadow = LimitStatus { enforced: false, ..status("s", 1, 1, 1, 1) };
        let none = LimitStatus { limit: u64::MAX, ..status("u", 1, 1, 1, 1) };
        assert!(written(HeaderStyle::Draft10, &summary(&[shadow, none])).is_empty());
    }
}
