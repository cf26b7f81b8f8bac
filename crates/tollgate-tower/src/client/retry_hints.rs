//! Reads from a response how long the client should pause.
//!
//! The headers are untrusted: what is not understood is ignored, numbers saturate, and the caller
//! caps the result.

use std::time::Duration;

use http::header::{DATE, GetAll, HeaderMap, HeaderName, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use sfv::{BareItem, Dictionary, List, ListEntry, Parser};

use crate::grpc::{self, Status, code};

/// The pause after a refusal without a hint.
const SECOND: Duration = Duration::from_secs(1);

/// The maximum length of a field.
const MAX_FIELD: usize = 8 * 1024;

/// Numbers from here on are moments since 1970, not spans: as a span it would be 30 years.
const MOMENTS_FROM: u64 = 1_000_000_000;

const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// Returns how long the service wants no more requests; `None` if it does not say. `wall` is the
/// time since 1970.
pub(super) fn pause(status: StatusCode, headers: &HeaderMap, wall: Duration) -> Option<Duration> {
    let refused = matches!(status.as_u16(), 429 | 503);
    let by_status = match refused {
        true => retry_after(headers, wall),
        false => grpc_refusal(headers),
    };
    let hint = by_status.or_else(|| exhausted(headers, wall));
    let fallback = (status == StatusCode::TOO_MANY_REQUESTS).then_some(SECOND);
    hint.or(fallback).filter(|pause| !pause.is_zero())
}

/// `Retry-After`: seconds or a date. The date is compared with the one the answer carries, so that
/// clocks need not agree.
fn retry_after(headers: &HeaderMap, wall: Duration) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Some(seconds) = digits(text) {
        return Some(Duration::from_secs(seconds));
    }
    Some(date(text)?.saturating_sub(their_time(headers, wall)))
}

fn their_time(headers: &HeaderMap, wall: Duration) -> Duration {
    let told = headers.get(DATE).and_then(|value| date(value.to_str().ok()?.trim()));
    told.unwrap_or(wall)
}

fn date(text: &str) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    date.duration_since(std::time::UNIX_EPOCH).ok()
}

/// A refusal of gRPC that says when to come back.
fn grpc_refusal(headers: &HeaderMap) -> Option<Duration> {
    let code: i32 = headers.get(grpc::STATUS)?.to_str().ok()?.parse().ok()?;
    if ![code::RESOURCE_EXHAUSTED, code::UNAVAILABLE].contains(&code) {
        return None;
    }
    let pushback = || {
        let millis = headers.get(PUSHBACK)?.to_str().ok()?;
        digits(millis.trim()).map(Duration::from_millis)
    };
    let details = || Status::from_header(headers.get(grpc::DETAILS)?.as_bytes())?.retry_delay();
    pushback().or_else(details)
}

/// Returns when the limit is reset, if nothing remains.
fn exhausted(headers: &HeaderMap, wall: Duration) -> Option<Duration> {
    let structured = || structured(headers);
    structured()
        .or_else(|| plain(headers, ["ratelimit-remaining", "ratelimit-reset"], wall))
        .or_else(|| plain(headers, ["x-ratelimit-remaining", "x-ratelimit-reset"], wall))
}

/// `RateLimit-Remaining` and `RateLimit-Reset`, or the same with an `X-`.
fn plain(headers: &HeaderMap, names: [&str; 2], wall: Duration) -> Option<Duration> {
    let [remaining, reset] = names.map(|name| digits(headers.get(name)?.to_str().ok()?.trim()));
    let reset = reset?;
    if remaining? > 0 {
        return None;
    }
    Some(match reset {
        // Some tell the moment, some of them in milliseconds.
        0..MOMENTS_FROM => Duration::from_secs(reset),
        _ if reset / 1000 >= MOMENTS_FROM => {
            Duration::from_millis(reset).saturating_sub(their_time(headers, wall))
        }
        _ => Duration::from_secs(reset).saturating_sub(their_time(headers, wall)),
    })
}

/// `RateLimit`: a list of policies with `r` and `t` (drafts 8 to 10), or a dictionary of
/// `remaining` and `reset` (draft 7).
fn structured(headers: &HeaderMap) -> Option<Duration> {
    let text = joined(headers.get_all("ratelimit"))?;
    if let Ok(list) = Parser::new(&text).parse::<List>() {
        let policies = || joined(headers.get_all("ratelimit-policy"));
        return list.iter().filter_map(|item| of_policy(item, &policies)).max();
    }
    let fields = Parser::new(&text).parse::<Dictionary>().ok()?;
    let number = |name| match fields.get(name)? {
        ListEntry::Item(item) => integer(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    (number("remaining")? == 0).then(|| number("reset").map(Duration::from_secs)).flatten()
}

/// Returns when an exhausted policy is reset. One without a reset time is reset within its window,
/// which is among the `policies`.
///
/// Times are whole seconds, and much can be restored within one. So the rest of a policy that is reset
/// in a second is spread over it.
fn of_policy(item: &ListEntry, policies: &dyn Fn() -> Option<String>) -> Option<Duration> {
    let ListEntry::Item(item) = item else { return None };
    let remaining = integer(item.params.get("r")?)?;
    let hint = item.params.get("t").and_then(integer);
    if remaining > 0 {
        let spread =
            || Duration::from_nanos(1_000_000_000_u64.div_ceil(remaining.saturating_add(1)));
        return (hint == Some(1)).then(spread);
    }
    let window = || {
        let policies: List = Parser::new(&policies()?).parse().ok()?;
        policies.iter().find_map(|policy| match policy {
            ListEntry::Item(policy) if policy.bare_item == item.bare_item => {
                policy.params.get("w").and_then(integer)
            }
            _ => None,
        })
    };
    hint.or_else(window).map(Duration::from_secs)
}

fn integer(item: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(item.as_integer()?)).ok()
}

/// Lines of one field are one list.
fn joined(lines: GetAll<'_, HeaderValue>) -> Option<String> {
    let lines: Vec<&str> = lines.iter().map(|line| line.to_str()).collect::<Result<_, _>>().ok()?;
    let length: usize = lines.iter().map(|line| line.len() + 2).sum();
    (1..=MAX_FIELD).contains(&length).then(|| lines.join(", "))
}

/// A number of nothing but digits; one that is too large is the largest.
fn digits(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
