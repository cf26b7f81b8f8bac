//! The rate-limit headers that Envoy adds to its responses.

use tollgate::Clock;
use tollgate_rules::envoy::{CurrentLimit, RateLimitHeaders, RateLimitResponse};

use super::proto::envoy::config::core::v3::HeaderValue;
use crate::config::{Config, HeaderStyle};

/// The names of the headers in the styles that number limits.
const X_RATE_LIMIT: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

/// The style of the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvoyHeaderStyle {
    /// No headers.
    Absent,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as Envoy's own service adds.
    Plain,
    /// The plain headers, and `RateLimit-Policy`.
    Draft6,
    /// `X-RateLimit-*`; the reset is a time.
    Legacy,
    /// `x-ratelimit-*` with quota policies, as Envoy itself can write.
    Envoy03,
}

impl EnvoyHeaderStyle {
    /// Returns the style that is configured.
    pub(crate) fn new(config: &Config) -> EnvoyHeaderStyle {
        match (config.headers, config.envoy_headers) {
            (HeaderStyle::Envoy03, _) => EnvoyHeaderStyle::Envoy03,
            (_, false) => EnvoyHeaderStyle::Absent,
            (HeaderStyle::Draft6, true) => EnvoyHeaderStyle::Draft6,
            (HeaderStyle::Legacy, true) => EnvoyHeaderStyle::Legacy,
            // The default style must not change what clients of Envoy's own service see.
            (HeaderStyle::Draft10 | HeaderStyle::Draft8 | HeaderStyle::None, true) => {
                EnvoyHeaderStyle::Plain
            }
        }
    }
}

/// Returns the headers of a response: of the limit that refused it, or else has the least remaining.
pub(super) fn response_headers(
    style: EnvoyHeaderStyle,
    answer: &RateLimitResponse,
    clock: &Clock,
) -> Vec<HeaderValue> {
    let Some(shown) = answer.headers.as_ref().filter(|_| style != EnvoyHeaderStyle::Absent) else {
        return Vec::new();
    };
    let RateLimitHeaders { limit, remaining, reset } = *shown;
    let plain = || shown.pairs().map(|(name, value)| header(name, value.to_string()));
    let numbered = |limit: String, reset: u64| {
        let values = [limit, remaining.to_string(), reset.to_string()];
        X_RATE_LIMIT.into_iter().zip(values).map(|(name, value)| header(name, value)).collect()
    };
    match style {
        EnvoyHeaderStyle::Absent => Vec::new(),
        EnvoyHeaderStyle::Plain => plain().into(),
        EnvoyHeaderStyle::Draft6 => {
            let policies: Vec<String> = limits(answer).map(policy).collect();
            plain().into_iter().chain([header("RateLimit-Policy", policies.join(", "))]).collect()
        }
        EnvoyHeaderStyle::Legacy => {
            let now_s = clock.date(clock.now()).as_nanos() / 1_000_000_000;
            numbered(limit.to_string(), now_s.saturating_add(reset))
        }
        EnvoyHeaderStyle::Envoy03 => {
            let mut text = limit.to_string();
            for limit in limits(answer) {
                text.push_str(", ");
                text.push_str(&policy(limit));
                if let Some(name) = &limit.name {
                    text.push_str(&format!(";name=\"{}\"", printable(name)));
                }
            }
            numbered(text, reset)
        }
    }
}

fn limits(answer: &RateLimitResponse) -> impl Iterator<Item = &CurrentLimit> {
    answer.statuses.iter().filter_map(|status| status.current_limit.as_ref())
}

/// Returns a limit and its window in seconds: `5;w=60`.
fn policy(limit: &CurrentLimit) -> String {
    let window = limit.unit.span().times(limit.unit_multiplier.into());
    format!("{};w={}", limit.requests_per_unit, window.as_nanos() / 1_000_000_000)
}

/// Returns a name without the characters that a quoted string of a header cannot have.
fn printable(name: &str) -> String {
    let is_safe = |one: char| matches!(one, ' '..='~') && !matches!(one, '"' | '\\');
    name.chars().map(|one| if is_safe(one) { one } else { '_' }).collect()
}

fn header(key: &str, value: String) -> HeaderValue {
    HeaderValue { key: key.to_owned(), value, raw_value: Vec::new() }
}
