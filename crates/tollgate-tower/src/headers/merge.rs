//! Combines rate-limit headers with those that a response has already: the stricter limit is told.
//!
//! What a service sends is untrusted: fields that cannot be read are replaced.

use std::cmp::Reverse;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use sfv::{BareItem, Dictionary, List, ListEntry, Parser};
use smallvec::SmallVec;

use super::fields::{DRAFT_6, LEGACY, POLICY, RATE_LIMIT};

/// The maximum length of a field that is read.
const MAX_FIELD: usize = 8 * 1024;

/// Numbers from here on are moments since 1970, not spans: as a span it would be 30 years.
const MOMENTS_FROM: u64 = 1_000_000_000;

/// Adds fields; of two limits that have no room beside each other, the stricter one stays.
pub(super) fn stricter(fields: SmallVec<[(HeaderName, HeaderValue); 2]>, headers: &mut HeaderMap) {
    // `RateLimit` of the drafts before the eighth has room for one limit.
    let keeps_theirs = OneLimit::in_dictionary(headers).is_some_and(|theirs| {
        let ours = fields.iter().find(|(name, _)| *name == RATE_LIMIT);
        let ours = ours.and_then(|(_, value)| OneLimit::tightest_of_list(text(value)?));
        ours.is_some_and(|ours| !ours.is_stricter_than(&theirs))
    });
    let remaining_of = |names: &[HeaderName; 3]| {
        let field = |name: &HeaderName| {
            fields.iter().find(|(other, _)| other == name).and_then(|(_, value)| number(value))
        };
        Some(OneLimit { remaining: field(&names[1])?, reset: field(&names[2])? })
    };
    let are_theirs_kept = |names: &[HeaderName; 3], headers: &HeaderMap| {
        let theirs = OneLimit::in_fields(headers, names);
        theirs
            .zip(remaining_of(names))
            .is_some_and(|(theirs, ours)| !ours.is_stricter_than(&theirs))
    };
    let kept = [&DRAFT_6, &LEGACY].map(|names| are_theirs_kept(names, headers));
    for (name, value) in fields {
        let in_triple = [&DRAFT_6, &LEGACY].iter().position(|names| names.contains(&name));
        match in_triple {
            Some(triple) if kept[triple] => {}
            _ if name == RATE_LIMIT && keeps_theirs => {}
            _ if name == RATE_LIMIT && is_list(headers, &name) => drop(headers.append(name, value)),
            _ if name == POLICY && is_list(headers, &name) => drop(headers.append(name, value)),
            _ if name == RETRY_AFTER => longer_wait(value, headers),
            _ => drop(headers.insert(name, value)),
        }
    }
}

/// The limit of fields that have room for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OneLimit {
    remaining: u64,
    reset: u64,
}

impl OneLimit {
    /// Whether it has less remaining, or as much and a later reset. A span and a moment cannot be
    /// compared.
    fn is_stricter_than(&self, other: &OneLimit) -> bool {
        let is_moment = |limit: &OneLimit| limit.reset >= MOMENTS_FROM;
        self.remaining < other.remaining
            || self.remaining == other.remaining
                && is_moment(self) == is_moment(other)
                && self.reset > other.reset
    }

    /// Reads `…-Remaining` and `…-Reset`.
    fn in_fields(headers: &HeaderMap, names: &[HeaderName; 3]) -> Option<OneLimit> {
        let field = |name: &HeaderName| number(headers.get(name)?);
        Some(OneLimit { remaining: field(&names[1])?, reset: field(&names[2])? })
    }

    /// Reads `limit=100, remaining=50, reset=30`.
    fn in_dictionary(headers: &HeaderMap) -> Option<OneLimit> {
        let fields: Dictionary = Parser::new(text(headers.get(RATE_LIMIT)?)?).parse().ok()?;
        let number = |name| match fields.get(name)? {
            ListEntry::Item(item) => integer(&item.bare_item),
            ListEntry::InnerList(_) => None,
        };
        Some(OneLimit { remaining: number("remaining")?, reset: number("reset")? })
    }

    /// Returns the strictest of `"a";r=50;t=30, "b";r=10;t=5`.
    fn tightest_of_list(text: &str) -> Option<OneLimit> {
        let list: List = Parser::new(text).parse().ok()?;
        let limits = list.iter().filter_map(|entry| match entry {
            ListEntry::Item(item) => Some(OneLimit {
                remaining: integer(item.params.get("r")?)?,
                reset: item.params.get("t").and_then(integer).unwrap_or(0),
            }),
            ListEntry::InnerList(_) => None,
        });
        limits.min_by_key(|limit| (limit.remaining, Reverse(limit.reset)))
    }
}

/// Whether all lines of a field are lists of items, to which others can be added.
fn is_list(headers: &HeaderMap, name: &HeaderName) -> bool {
    let is_list = |value: &HeaderValue| {
        let list = text(value).and_then(|text| Parser::new(text).parse::<List>().ok());
        list.is_some_and(|list| list.iter().all(|entry| matches!(entry, ListEntry::Item(_))))
    };
    let mut lines = headers.get_all(name).iter().peekable();
    lines.peek().is_some() && lines.all(is_list)
}

/// Keeps the longer wait; a date is not compared, and stays.
fn longer_wait(value: HeaderValue, headers: &mut HeaderMap) {
    let theirs = headers.get(RETRY_AFTER).and_then(text).map(|text| text.parse::<u64>());
    match theirs {
        Some(Ok(theirs)) if number(&value).is_some_and(|ours| ours <= theirs) => {}
        Some(Err(_)) if headers.get(RETRY_AFTER).is_some_and(is_date) => {}
        _ => drop(headers.insert(RETRY_AFTER, value)),
    }
}

fn is_date(value: &HeaderValue) -> bool {
    text(value).is_some_and(|text| httpdate::parse_http_date(text).is_ok())
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim).filter(|text| text.len() <= MAX_FIELD)
}

fn number(value: &HeaderValue) -> Option<u64> {
    text(value)?.parse().ok()
}

fn integer(item: &BareItem) -> Option<u64> {
    u64::try_from(i64::from(item.as_integer()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds fields to others, and returns all lines.
    fn merged(theirs: &[(&str, &str)], ours: &[(&str, &str)]) -> Vec<String> {
        let parsed = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        let mut headers: HeaderMap = HeaderMap::new();
        for (name, value) in theirs.iter().map(parsed) {
            headers.append(name, value);
        }
        stricter(ours.iter().map(parsed).collect(), &mut headers);
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}", value.to_str().unwrap())
        };
        let mut lines: Vec<String> = headers.iter().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn lists_have_the_policies_of_both() {
        let theirs = [("ratelimit-policy", r#""up";q=5;w=60"#), ("ratelimit", r#""up";r=1;t=30"#)];
        let ours = [("ratelimit-policy", r#""api";q=9;w=60"#), ("ratelimit", r#""api";r=8;t=7"#)];
        assert_eq!(
            merged(&theirs, &ours),
            [
                r#"ratelimit-policy: "api";q=9;w=60"#,
                r#"ratelimit-policy: "up";q=5;w=60"#,
                r#"ratelimit: "api";r=8;t=7"#,
                r#"ratelimit: "up";r=1;t=30"#,
            ]
        );
    }

    #[test]
    fn one_limit_gives_way_to_a_stricter_one() {
        for prefix in ["ratelimit", "x-ratelimit"] {
            let names = ["limit", "remaining", "reset"].map(|name| format!("{prefix}-{name}"));
            let fields = |values: [&'static str; 3]| -> Vec<(&str, &str)> {
                names.iter().map(String::as_str).zip(values).collect()
            };
            for (theirs, ours, is_theirs) in [
                (["5", "1", "30"], ["9", "8", "7"], true),
                (["5", "4", "30"], ["9", "0", "7"], false),
                (["5", "4", "30"], ["9", "4", "31"], false),
                (["5", "4", "30"], ["9", "4", "29"], true),
                (["5", "x", "30"], ["9", "4", "29"], false),
                (["5", "", ""], ["9", "4", "29"], false),
                (["5", "4", "30"], ["9", "4", "1767268809"], true),
            ] {
                let expected = merged(&[], &fields(if is_theirs { theirs } else { ours }));
                assert_eq!(merged(&fields(theirs), &fields(ours)), expected, "{theirs:?} {ours:?}");
            }
        }
    }

    #[test]
    fn a_dictionary_of_an_older_draft_has_no_room_for_two() {
        let ours = [("ratelimit", r#""api";r=8;t=7"#)];
        let strict = [("ratelimit", "limit=5, remaining=1, reset=30")];
        assert_eq!(merged(&strict, &ours), ["ratelimit: limit=5, remaining=1, reset=30"]);
        let loose = [("ratelimit", "limit=50, remaining=10, reset=30")];
        assert_eq!(merged(&loose, &ours), [r#"ratelimit: "api";r=8;t=7"#]);
    }

    #[test]
    fn what_cannot_be_read_is_replaced() {
        let huge = format!("\"{}\"", "a".repeat(MAX_FIELD));
        let ours = [("ratelimit", r#""api";r=8;t=7"#)];
        for garbage in ["(((", "\"a", &huge, "("] {
            assert_eq!(merged(&[("ratelimit", garbage)], &ours), [r#"ratelimit: "api";r=8;t=7"#]);
        }
    }

    #[test]
    fn the_longer_wait_stays() {
        let wait = |theirs, ours| merged(&[("retry-after", theirs)], &[("retry-after", ours)]);
        assert_eq!(wait("9", "3"), ["retry-after: 9"]);
        assert_eq!(wait("3", "9"), ["retry-after: 9"]);
        assert_eq!(wait("soon", "9"), ["retry-after: 9"]);
        let date = "Thu, 01 Jan 2026 12:00:30 GMT";
        assert_eq!(wait(date, "9"), [format!("retry-after: {date}")]);
    }
}
