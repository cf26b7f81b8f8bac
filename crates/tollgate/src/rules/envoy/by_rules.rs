//! Domains written as rules, asked by Envoy: a descriptor is a request, a decision a status.

use std::time::Duration;

use tollgate_core::Span;

use super::answer::whole_seconds;
use super::{Code, CurrentLimit, Descriptor, DescriptorStatus, Unit, near_limit};
use crate::limit::{Period, Quota};
use crate::rules::Request;
use crate::rules::decision::{Decision, LimitStatus, Reason};

/// The request a descriptor amounts to.
pub(crate) fn request_of<'a>(
    domain: &'a str,
    descriptor: &Descriptor<'a>,
    cost: u64,
) -> Request<'a> {
    let request = Request::empty().domain(domain).cost(cost).unreported();
    descriptor.entries.iter().fold(request, |request, &(key, value)| match key {
        "remote_address" => request.attribute("ip", value),
        "masked_remote_address" => {
            // A network, `203.0.113.0/24`: its first address stands for all of them.
            request.attribute("ip", value.split_once('/').map_or(value, |(address, _)| address))
        }
        ":path" => request.attribute("path", value),
        ":method" => request.attribute("method", value),
        ":authority" => request.attribute("host", value),
        key => match key.strip_prefix("header.") {
            Some(name) => request.header(name, value),
            None => request.attribute(key, value),
        },
    })
}

/// What Envoy is told about a decision: how the limit stands that refused, or else has the least
/// left.
pub(crate) fn status_of(decision: &Decision) -> DescriptorStatus {
    let code = if decision.allowed { Code::Ok } else { Code::OverLimit };
    let Some(limit) = decision.tightest().or_else(|| decision.limits().next()) else {
        let unlimited = decision.reason == Reason::AllowedByRule;
        let free = DescriptorStatus::free(if unlimited { u32::MAX } else { 0 });
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
    }
}

/// The limit in Envoy's words; none for what is counted at a time.
fn current_limit(limit: &LimitStatus<'_>) -> Option<CurrentLimit> {
    let Quota { amount, period, .. } = limit.quota;
    let (amount, unit, unit_multiplier) = in_units(amount, period?);
    Some(CurrentLimit {
        name: Some(limit.rule.into()),
        requests_per_unit: u32::try_from(amount).unwrap_or(u32::MAX),
        unit,
        unit_multiplier,
    })
}

/// So many in so many units: the largest that gives a whole number. What is finer than a second is
/// told by the second, rounded down.
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
    use crate::Limit;

    #[test]
    fn periods_become_units() {
        for (limit, told) in [
            ("10/s", (10, Unit::Second, 1)),
            ("60/60s", (60, Unit::Minute, 1)),
            ("5/15min", (5, Unit::Minute, 15)),
            ("1k/30d", (1_000, Unit::Month, 1)),
            ("3/14d", (3, Unit::Week, 2)),
            ("1/500ms", (2, Unit::Second, 1)),
            ("2/1500ms", (1, Unit::Second, 1)),
        ] {
            let quota = limit.parse::<Limit>().unwrap().quota();
            assert_eq!(in_units(quota.amount, quota.period.unwrap()), told, "{limit}");
        }
    }
}
