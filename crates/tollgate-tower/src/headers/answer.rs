//! What a decision comes to for the one who asked, whether rules made it or a limit that was
//! brought along.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::limit::AlgorithmName;
use tollgate::rules::{Decision, Mode, Reason};
use tollgate::{Quota, Retry, Span, Verdict};

/// What a decision comes to.
///
/// ```
/// use tollgate::{Limiter, Request};
/// use tollgate_tower::headers::Answer;
///
/// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 10/s burst 20 }]".parse()?);
/// let decision = limiter.decide(&Request::new("GET", "/"));
/// let answer = Answer::of(&decision);
/// assert_eq!((answer.allowed, answer.rule), (true, Some("api")));
/// // Twenty at once, all of them back in two seconds.
/// assert_eq!((answer.limits[0].limit, answer.limits[0].window_s), (20, Some(2)));
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// Whether the request passes.
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// The HTTP status that says so.
    pub code: u16,
    /// The rule that decided.
    pub rule: Option<&'a str>,
    /// Whose counter decided.
    pub key: Option<&'a str>,
    /// How long an allowed request must be held back, in milliseconds.
    pub wait_ms: u64,
    /// When a refused request may come back, in milliseconds; at least one.
    pub retry_after_ms: Option<u64>,
    /// Whether it was refused because of how its sender behaves.
    pub banned: bool,
    /// How each limit stands.
    pub limits: SmallVec<[Standing<'a>; 4]>,
}

/// How one limit stands.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Standing<'a> {
    /// The rule it belongs to.
    pub rule: Option<&'a str>,
    /// The most that can be spent at once.
    pub limit: u64,
    /// In how many seconds all of that comes back; none where it comes back when a holder is done.
    pub window_s: Option<u64>,
    /// What is left.
    pub remaining: u64,
    /// When all of it is back, in milliseconds.
    pub reset_after_ms: u64,
    /// Whether it allows the request.
    pub allowed: bool,
    /// Whether its refusal counts.
    pub enforced: bool,
    /// The mode of its rule.
    pub mode: Mode,
}

impl<'a> Answer<'a> {
    /// What rules decided.
    pub fn of(decision: &'a Decision) -> Answer<'a> {
        Answer {
            allowed: decision.allowed,
            reason: decision.reason,
            code: decision.code,
            rule: decision.rule(),
            key: decision.key(),
            wait_ms: millis_up(decision.wait),
            retry_after_ms: decision.retry_after.map(|retry| millis_up(retry).max(1)),
            banned: decision.reason == Reason::Banned,
            limits: standings(decision).collect(),
        }
    }

    /// What a limit decided that the caller brought along.
    pub fn of_limit(quota: Quota, verdict: &Verdict) -> Answer<'a> {
        let (reason, retry) = match (verdict.allowed, verdict.retry) {
            (true, _) => (Reason::WithinLimits, None),
            (false, Retry::Never) => (Reason::NeverFits, None),
            (false, Retry::After(span)) => (Reason::OverLimit, Some(span)),
            (false, Retry::Now) => (Reason::OverLimit, Some(Span::ZERO)),
        };
        Answer {
            allowed: verdict.allowed,
            reason,
            code: if verdict.allowed { 200 } else { 429 },
            rule: None,
            key: None,
            wait_ms: if verdict.allowed { span_millis_up(verdict.wait) } else { 0 },
            retry_after_ms: retry.map(|span| span_millis_up(span).max(1)),
            banned: false,
            limits: [Standing::of(quota, verdict)].into_iter().collect(),
        }
    }

    /// Whole seconds after which a refused request may come back; at least one.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after_ms.map(|millis| millis.div_ceil(1000).max(1))
    }

    /// The limits clients are told about, with a name for each.
    pub(crate) fn policies(&self) -> impl Iterator<Item = (Name<'a>, &Standing<'a>)> {
        policies(&self.limits)
    }
}

/// How each limit of a decision stands.
pub(super) fn standings(decision: &Decision) -> impl Iterator<Item = Standing<'_>> {
    decision.limits().map(|limit| Standing {
        rule: Some(limit.rule),
        enforced: limit.enforced,
        mode: limit.mode,
        ..Standing::of(limit.quota, &limit.verdict)
    })
}

/// The limits clients are told about.
pub(super) fn told<'l, 'a>(
    limits: &'l [Standing<'a>],
) -> impl Iterator<Item = &'l Standing<'a>> + Clone {
    limits.iter().filter(|limit| limit.is_told())
}

/// The limits clients are told about, with a name for each: its rule's, and a number where a rule
/// has several.
pub(super) fn policies<'l, 'a>(
    limits: &'l [Standing<'a>],
) -> impl Iterator<Item = (Name<'a>, &'l Standing<'a>)> {
    told(limits).enumerate().map(move |(index, limit)| {
        let earlier = told(limits).take(index).filter(|other| other.rule == limit.rule).count();
        (Name { rule: limit.rule_name(), number: earlier + 1 }, limit)
    })
}

/// The limit to tell about where there is room for one: the one closest to refusing.
pub(super) fn tightest<'l, 'a>(limits: &'l [Standing<'a>]) -> Option<&'l Standing<'a>> {
    told(limits).min_by_key(|limit| (limit.allowed, limit.remaining))
}

/// What a policy is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    pub(crate) rule: &'a str,
    /// Counted from 1 within the rule.
    pub(crate) number: usize,
}

impl<'a> Standing<'a> {
    fn of(quota: Quota, verdict: &Verdict) -> Standing<'a> {
        Standing {
            rule: None,
            limit: verdict.limit,
            window_s: window_s(quota, verdict.limit),
            remaining: verdict.remaining,
            reset_after_ms: span_millis_up(verdict.reset_after),
            allowed: verdict.allowed,
            enforced: true,
            mode: Mode::Enforce,
        }
    }

    /// The name of its rule, or of limits that have none.
    pub(super) fn rule_name(&self) -> &'a str {
        self.rule.unwrap_or("limit")
    }

    fn is_told(&self) -> bool {
        self.enforced && self.limit != u64::MAX
    }

    /// Whether it counts what is held at a time.
    pub(crate) fn is_concurrency(&self) -> bool {
        self.window_s.is_none()
    }

    pub(crate) fn reset_after_s(&self) -> u64 {
        self.reset_after_ms.div_ceil(1000)
    }
}

/// In how many seconds `limit` comes back at the quota's rate, so that one divided by the other is
/// the rate.
fn window_s(quota: Quota, limit: u64) -> Option<u64> {
    if quota.algorithm == AlgorithmName::Unlimited {
        return None;
    }
    let (period, amount) = (quota.period?.span().as_nanos(), quota.amount.max(1));
    // Everyday limits fit into 64 bits, and dividing twice as many takes many times as long.
    let seconds = match period.checked_mul(limit) {
        Some(product) => product.div_ceil(amount).div_ceil(1_000_000_000),
        None => {
            let whole = (u128::from(period) * u128::from(limit)).div_ceil(u128::from(amount));
            u64::try_from(whole.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
        }
    };
    Some(seconds.max(1))
}

/// Milliseconds, rounded up.
pub fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn span_millis_up(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Bucket, Check, Limit, MemoryStore};

    fn standing(text: &str) -> (u64, Option<u64>) {
        let limit: Limit = text.parse().unwrap();
        let verdict = MemoryStore::new().decide_one(&Check::new(Bucket::new(0), "a", &limit, 1));
        let answer = Answer::of_limit(limit.quota(), &verdict);
        (answer.limits[0].limit, answer.limits[0].window_s)
    }

    #[test]
    fn limit_and_window_make_the_rate() {
        assert_eq!(standing("5/min"), (5, Some(60)));
        assert_eq!(standing("10/s burst 20"), (20, Some(2)));
        assert_eq!(standing("10/100ms"), (10, Some(1)), "never no time at all");
        assert_eq!(standing("20/h sliding"), (20, Some(3600)));
        assert_eq!(standing("3 concurrent"), (3, None));
        assert_eq!(standing("unlimited").1, None);
    }

    #[test]
    fn nobody_is_told_to_come_back_at_once() {
        let limit: Limit = "1000/s burst 1".parse().unwrap();
        let store = MemoryStore::new();
        let check = Check::new(Bucket::new(0), "a", &limit, 1);
        let denied = loop {
            let verdict = store.decide_one(&check);
            if !verdict.allowed {
                break verdict;
            }
        };
        let answer = Answer::of_limit(limit.quota(), &denied);
        assert_eq!((answer.retry_after_ms, answer.retry_after_s()), (Some(1), Some(1)));
        let huge = store.decide_one(&Check { cost: 2, ..check });
        let never = Answer::of_limit(limit.quota(), &huge);
        assert_eq!((never.reason, never.retry_after_s()), (Reason::NeverFits, None));
    }
}
