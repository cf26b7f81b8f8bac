//! Requests of Envoy to domains of rules: a descriptor is a request, a decision a status. In domains
//! that decide descriptors together, all descriptors are one request.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_core::Span;

use super::response::whole_seconds;
use super::{Code, CurrentLimit, Descriptor, DescriptorStatus, Unit, near_limit};
use crate::Request;
use crate::decide::decision::{Decision, LimitStatus, Reason};
use tollgate::limit::{LimitSummary, Period};

/// Converts a descriptor to a request.
pub(crate) fn descriptor_request<'a>(
    domain: &'a str,
    descriptor: &Descriptor<'a>,
    cost: u64,
) -> Request<'a> {
    let request = Request::empty().domain(domain).cost(cost).unreported();
    descriptor
        .entries
        .iter()
        .fold(request, |request, &(key, value)| with_entry(request, key, value))
}

/// Adds an entry under the name that rules know it by.
fn with_entry<'a>(request: Request<'a>, key: &'a str, value: &'a str) -> Request<'a> {
    match key {
        "remote_address" => request.attribute("ip", value),
        "masked_remote_address" => {
            // The value is a network, `203.0.113.0/24`: its first address represents it.
            request.attribute("ip", value.split_once('/').map_or(value, |(address, _)| address))
        }
        ":path" => request.attribute("path", value),
        ":method" => request.attribute("method", value),
        ":authority" => request.attribute("host", value),
        key => match key.strip_prefix("header.") {
            Some(name) => request.header(name, value),
            None => request.attribute(key, value),
        },
    }
}

/// The entries of all descriptors of a request, by the names `descriptors.0.user` and `user`.
pub(crate) struct JoinedEntries<'a> {
    /// Entries by number and key. Of two with the same key in a descriptor, only the last.
    numbered: Vec<(String, &'a str)>,
    /// Entries by key alone. Of two with the same key, only the last.
    plain: Vec<(&'a str, &'a str)>,
}

impl<'a> JoinedEntries<'a> {
    pub(crate) fn new(descriptors: &'a [Descriptor<'a>]) -> JoinedEntries<'a> {
        let mut entries = JoinedEntries { numbered: Vec::new(), plain: Vec::new() };
        for (number, descriptor) in descriptors.iter().enumerate().rev() {
            let mut own: HashSet<&str> = HashSet::new();
            for &(key, value) in descriptor.entries.iter().rev() {
                if own.insert(key) {
                    entries.numbered.push((format!("descriptors.{number}.{key}"), value));
                }
            }
        }
        let mut seen: HashSet<&str> = HashSet::new();
        let all = descriptors.iter().rev().flat_map(|descriptor| descriptor.entries.iter().rev());
        entries.plain.extend(all.copied().filter(|(key, _)| seen.insert(key)));
        entries
    }

    /// Returns all entries as one request.
    pub(crate) fn request<'r>(&'r self, domain: &'r str, cost: u64) -> Request<'r> {
        let request = Request::empty().domain(domain).cost(cost).unreported();
        let numbered = |request: Request<'r>, (name, value): &'r (String, &'a str)| {
            request.attribute(name, *value)
        };
        let request = self.numbered.iter().fold(request, numbered);
        self.plain.iter().fold(request, |request, &(key, value)| with_entry(request, key, value))
    }
}

/// Converts a decision to a status: of the limit that refused, or else has the least remaining.
pub(crate) fn decision_status(decision: &Decision) -> DescriptorStatus {
    let code = if decision.allowed { Code::Ok } else { Code::OverLimit };
    let Some(limit) = decision.tightest().or_else(|| decision.limits().next()) else {
        let unlimited = decision.reason == Reason::AllowedByRule;
        let free = DescriptorStatus::without_limit(if unlimited { u32::MAX } else { 0 });
        return DescriptorStatus { code, ..free };
    };
    let remaining = u32::try_from(limit.verdict.remaining).unwrap_or(u32::MAX);
    let current_limit = current_limit(&limit);
    let requests = current_limit.as_ref().map_or(u32::MAX, |limit| limit.requests_per_unit);
    let reset = whole_seconds(limit.verdict.reset_after);
    let soonest = if decision.allowed { Duration::ZERO } else { Duration::from_secs(1) };
    DescriptorStatus {
        code,
        current_limit,
        limit_remaining: remaining,
        duration_until_reset: Some(reset.max(soonest)),
        retry_after: decision.retry_after,
        near_limit: decision.allowed && requests.saturating_sub(remaining) > near_limit(requests),
        shadow_denials: decision.shadow_denials().map(|denial| denial.rule.into()).collect(),
        incomplete_keys: decision
            .incomplete_keys()
            .map(|key| (key.rule().into(), key.attributes()))
            .collect(),
    }
}

/// Returns the limit in Envoy's terms; none for a concurrency limit.
fn current_limit(limit: &LimitStatus<'_>) -> Option<CurrentLimit> {
    let LimitSummary { amount, period, .. } = limit.quota;
    let (amount, unit, unit_multiplier) = in_units(amount, period?);
    Some(CurrentLimit {
        name: Some(limit.rule.into()),
        requests_per_unit: u32::try_from(amount).unwrap_or(u32::MAX),
        unit,
        unit_multiplier,
    })
}

/// Converts a rate to the largest unit that gives a whole number of units. A period below a second
/// is converted to requests per second, rounded down.
fn in_units(amount: u64, period: Period) -> (u64, Unit, u32) {
    use Unit::{Day, Hour, Minute, Month, Second, Week, Year};
    let length = period.span().as_nanos();
    for unit in [Year, Month, Week, Day, Hour, Minute, Second] {
        let count = length / unit.span().as_nanos();
        if count > 0 && length.is_multiple_of(unit.span().as_nanos()) {
            return (amount, unit, u32::try_from(count).unwrap_or(u32::MAX));
        }
    }
    let second = u128::from(Span::from_secs(1).as_nanos());
    let per_second = u128::from(amount) * second / u128::from(length.max(1));
    (u64::try_from(per_second).unwrap_or(u64::MAX), Second, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::Limit;

    #[test]
    fn periods_become_units() {
        for (limit, expected) in [
            ("10/s", (10, Unit::Second, 1)),
            ("60/60s", (60, Unit::Minute, 1)),
            ("5/15min", (5, Unit::Minute, 15)),
            ("1k/30d", (1_000, Unit::Month, 1)),
            ("3/14d", (3, Unit::Week, 2)),
            ("1/500ms", (2, Unit::Second, 1)),
            ("2/1500ms", (1, Unit::Second, 1)),
        ] {
            let summary = limit.parse::<Limit>().unwrap().summary();
            assert_eq!(in_units(summary.amount, summary.period.unwrap()), expected, "{limit}");
        }
    }
}
