//! A cache per thread for writing header fields: a text buffer and the last policies. Policies do
//! not change from request to request, and formatting them would cost more than a counter lookup.

use std::cell::{Cell, RefCell};

use http::HeaderValue;

use super::quota_policy::QuotaPolicy;
use super::summary::{LimitStatus, reported};

/// The number of policies that a thread caches.
const CACHED_POLICIES: usize = 16;

/// The maximum capacity of a text buffer that is kept.
const MAX_TEXT_CAPACITY: usize = 4096;

thread_local! {
    static TEXT: Cell<String> = const { Cell::new(String::new()) };
    static POLICIES: RefCell<[Option<CachedPolicy>; CACHED_POLICIES]> = const { RefCell::new([const { None }; CACHED_POLICIES]) };
}

/// The policy value of some limits, and the limits that it was made of.
struct CachedPolicy {
    limits: Box<[PolicyLimit]>,
    value: HeaderValue,
}

/// The part of a limit that its policy contains.
struct PolicyLimit {
    rule: Box<str>,
    limit: u64,
    policy: Option<QuotaPolicy>,
    unit: Option<Box<str>>,
}

impl PolicyLimit {
    fn new(status: &LimitStatus<'_>) -> PolicyLimit {
        let LimitStatus { limit, policy, unit, .. } = *status;
        PolicyLimit { rule: status.rule_name().into(), limit, policy, unit: unit.map(Into::into) }
    }

    fn matches(&self, status: &LimitStatus<'_>) -> bool {
        self.limit == status.limit
            && self.policy == status.policy
            && self.unit.as_deref() == status.unit
            && *self.rule == *status.rule_name()
    }
}

/// Returns the policy of the reported limits; `make` formats it if it is not cached.
pub(super) fn policy(
    limits: &[LimitStatus<'_>],
    make: impl FnOnce() -> Option<HeaderValue>,
) -> Option<HeaderValue> {
    // Adaptive limits change with almost every request.
    if reported(limits).any(LimitStatus::is_concurrency) {
        return make();
    }
    let slot = reported(limits).fold(0, |slot, limit| {
        limit.rule_name().len().wrapping_add(limit.limit as usize).wrapping_add(slot * 31)
    });
    POLICIES.with_borrow_mut(|policies| {
        let cached = &mut policies[slot % CACHED_POLICIES];
        if let Some(cached) = cached
            && is_same(&cached.limits, limits)
        {
            return Some(cached.value.clone());
        }
        let value = make()?;
        let limits = reported(limits).map(PolicyLimit::new).collect();
        *cached = Some(CachedPolicy { limits, value: value.clone() });
        Some(value)
    })
}

fn is_same(cached: &[PolicyLimit], limits: &[LimitStatus<'_>]) -> bool {
    let mut cached = cached.iter();
    reported(limits).all(|limit| cached.next().is_some_and(|cached| cached.matches(limit)))
        && cached.next().is_none()
}

/// Returns the value that `write` writes, in memory of its own size.
pub(super) fn written(write: impl FnOnce(&mut String)) -> Option<HeaderValue> {
    let mut text = TEXT.take();
    write(&mut text);
    let value = HeaderValue::from_str(&text).ok();
    if text.capacity() <= MAX_TEXT_CAPACITY {
        text.clear();
        TEXT.set(text);
    }
    value
}

#[cfg(test)]
mod tests {
    use tollgate::{Check, CounterId, Limit, MemoryStore};

    use super::super::DecisionSummary;
    use super::*;

    fn status(rule: &'static str, limit: &str) -> LimitStatus<'static> {
        let limit: Limit = limit.parse().unwrap();
        let verdict =
            MemoryStore::new().decide_one_now(&Check::new(CounterId::new(0), "a", &limit, 1));
        let summary = DecisionSummary::from_verdict(limit.summary(), &verdict);
        LimitStatus { rule: Some(rule), ..summary.limits[0] }
    }

    #[test]
    fn a_policy_is_made_once_and_never_taken_for_another() {
        let made = Cell::new(0);
        let ask = |limits: &[LimitStatus<'_>]| {
            let spelled: Vec<_> = limits
                .iter()
                .filter(|limit| limit.enforced)
                .map(|limit| format!("{:?} {} {:?}", limit.rule, limit.limit, limit.window_s))
                .collect();
            let spelled = spelled.join(", ");
            let value = policy(limits, || {
                made.set(made.get() + 1);
                HeaderValue::from_str(&spelled).ok()
            });
            assert_eq!(value.unwrap(), *spelled);
            made.get()
        };
        let [api, faster] = [status("api", "5/min"), status("api", "5/s")];
        let shadow = LimitStatus { enforced: false, ..faster };
        assert_eq!(ask(&[api]), 1);
        assert_eq!(ask(&[LimitStatus { remaining: 1, ..api }]), 1, "what is left is no part of it");
        assert_eq!(ask(&[shadow, api]), 1, "nor is what is not reported");
        // These share a slot, or have other slots.
        let mut before = 1;
        for limits in [&[faster][..], &[api, faster], &[faster, api], &[api, api], &[api]] {
            let now = ask(limits);
            assert!(now >= before && ask(limits) == now);
            before = now;
        }
        assert!((0..40).all(|limit| {
            let other = LimitStatus { limit, ..api };
            ask(&[other]) == ask(&[other])
        }));
    }

    #[test]
    fn adaptive_limits_are_not_cached() {
        let places = [status("db", "3 concurrent")];
        let first = policy(&places, || Some(HeaderValue::from_static("a")));
        let second = policy(&places, || Some(HeaderValue::from_static("b")));
        assert_eq!((first.unwrap(), second.unwrap()), ("a".parse().unwrap(), "b".parse().unwrap()));
    }

    #[test]
    fn a_text_begins_anew_even_while_another_is_written() {
        let outer = written(|text| {
            text.push_str("outer");
            let inner = written(|text| text.push_str("inner"));
            assert_eq!(inner.unwrap(), "inner");
        });
        assert_eq!(outer.unwrap(), "outer");
        assert_eq!(written(|text| text.push('x')).unwrap(), "x");
    }
}
