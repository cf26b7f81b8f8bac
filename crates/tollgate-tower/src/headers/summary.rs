//! Summaries of decisions for clients, made by rules or by an inline limit.

use std::time::Duration;

use smallvec::SmallVec;
use tollgate::limit::AlgorithmName;
use tollgate::{LimitSummary, Retry, Span, Verdict};
use tollgate_rules::{Decision, Mode, Reason};

use super::quota_policy::QuotaPolicy;

/// A decision in the units of HTTP.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
/// use tollgate_tower::headers::DecisionSummary;
///
/// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 10/s burst 20 }]".parse()?);
/// let decision = limiter.decide_now(&Request::new("GET", "/"));
/// let summary = DecisionSummary::new(&decision);
/// assert_eq!((summary.allowed, summary.rule), (true, Some("api")));
/// // Twenty at once, all of them back in two seconds.
/// assert_eq!((summary.limits[0].limit, summary.limits[0].window_s), (20, Some(2)));
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DecisionSummary<'a> {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The reason of the decision.
    pub reason: Reason,
    /// The HTTP status of the response.
    pub code: u16,
    /// The rule that decided.
    pub rule: Option<&'a str>,
    /// The key of the counter that decided.
    pub key: Option<&'a str>,
    /// The time an allowed request must wait, in milliseconds.
    pub wait_ms: u64,
    /// The time until a refused request can be retried, in milliseconds; at least one.
    pub retry_after_ms: Option<u64>,
    /// Whether the key is banned.
    pub banned: bool,
    /// The state of each limit.
    pub limits: SmallVec<[LimitStatus<'a>; 4]>,
}

/// The state of one limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LimitStatus<'a> {
    /// The rule of the limit.
    pub rule: Option<&'a str>,
    /// The maximum that can be spent at once.
    pub limit: u64,
    /// The time in which the whole limit is restored, in seconds; `None` for concurrency limits.
    pub window_s: Option<u64>,
    /// The quota and the window that clients are told, whose quotient is the rate of the limit;
    /// `None` for concurrency limits.
    pub policy: Option<QuotaPolicy>,
    /// The unit that the limit counts, if it is not requests.
    pub unit: Option<&'a str>,
    /// The amount that remains.
    pub remaining: u64,
    /// The time until the whole limit is restored, in milliseconds.
    pub reset_after_ms: u64,
    /// Whether the limit allows the request.
    pub allowed: bool,
    /// Whether the limit is enforced.
    pub enforced: bool,
    /// The mode of the rule.
    pub mode: Mode,
}

impl<'a> DecisionSummary<'a> {
    /// Creates the summary of a decision by rules.
    pub fn new(decision: &'a Decision) -> DecisionSummary<'a> {
        DecisionSummary {
            allowed: decision.allowed,
            reason: decision.reason,
            code: decision.code,
            rule: decision.rule(),
            key: decision.key(),
            wait_ms: millis_up(decision.wait),
            retry_after_ms: decision.retry_after.map(|retry| millis_up(retry).max(1)),
            banned: decision.reason == Reason::Banned,
            limits: limit_statuses(decision).collect(),
        }
    }

    /// Creates the summary of a decision by an inline limit.
    pub fn from_verdict(summary: LimitSummary, verdict: &Verdict) -> DecisionSummary<'a> {
        let (reason, retry) = match (verdict.allowed, verdict.retry) {
            (true, _) => (Reason::WithinLimits, None),
            (false, Retry::Never) => (Reason::NeverFits, None),
            (false, Retry::After(span)) => (Reason::OverLimit, Some(span)),
            (false, Retry::Now) => (Reason::OverLimit, Some(Span::ZERO)),
        };
        DecisionSummary {
            allowed: verdict.allowed,
            reason,
            code: if verdict.allowed { 200 } else { 429 },
            rule: None,
            key: None,
            wait_ms: if verdict.allowed { span_millis_up(verdict.wait) } else { 0 },
            retry_after_ms: retry.map(|span| span_millis_up(span).max(1)),
            banned: false,
            limits: [LimitStatus::new(summary, verdict)].into_iter().collect(),
        }
    }

    /// Creates the summary of a decision by several inline limits, all or none.
    ///
    /// The refusal with the longest wait decides.
    ///
    /// ```
    /// use tollgate::{Check, CounterId, Limit, MemoryStore};
    /// use tollgate_tower::headers::DecisionSummary;
    ///
    /// let limits: [Limit; 2] = ["10/s".parse()?, "1/h".parse()?];
    /// let checks = [0, 1].map(|n| Check::new(CounterId::new(n as u64), "ann", &limits[n], 1));
    /// let store = MemoryStore::new();
    /// store.decide_now(&checks);
    /// let verdicts = store.decide_now(&checks);
    /// let pairs = limits.iter().map(Limit::summary).zip(&verdicts);
    /// let summary = DecisionSummary::from_verdicts(pairs);
    /// assert_eq!((summary.allowed, summary.retry_after_s()), (false, Some(3600)));
    /// assert_eq!((summary.limits[0].allowed, summary.limits[1].allowed), (true, false));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn from_verdicts<'v>(
        verdicts: impl IntoIterator<Item = (LimitSummary, &'v Verdict)>,
    ) -> DecisionSummary<'a> {
        let mut all = verdicts
            .into_iter()
            .map(|(summary, verdict)| DecisionSummary::from_verdict(summary, verdict));
        let Some(mut decided) = all.next() else {
            return DecisionSummary {
                allowed: true,
                reason: Reason::WithinLimits,
                code: 200,
                rule: None,
                key: None,
                wait_ms: 0,
                retry_after_ms: None,
                banned: false,
                limits: SmallVec::new(),
            };
        };
        for mut other in all {
            let mut limits = std::mem::take(&mut decided.limits);
            limits.append(&mut other.limits);
            // A refusal without a time to retry never passes, which is the longest wait.
            let wait = |summary: &DecisionSummary<'_>| match summary.allowed {
                true => None,
                false => Some(summary.retry_after_ms.unwrap_or(u64::MAX)),
            };
            let wait_ms = decided.wait_ms.max(other.wait_ms);
            if wait(&other) > wait(&decided) {
                decided = other;
            }
            decided.wait_ms = if decided.allowed { wait_ms } else { 0 };
            decided.limits = limits;
        }
        decided
    }

    /// Returns the name of a limit: that of its rule, and a number where the rule has several.
    ///
    /// The limit has this name in `RateLimit-Policy`, `RateLimit` and `violated-policies`.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// use tollgate_tower::headers::DecisionSummary;
    ///
    /// let rules = "rules: [{ name: api, limit: [10/s, 100/h] }]".parse()?;
    /// let decision = RuleLimiter::new(rules).decide_now(&Request::new("GET", "/"));
    /// let summary = DecisionSummary::new(&decision);
    /// let names = [0, 1].map(|index| summary.policy_name(index).to_string());
    /// assert_eq!(names, ["api", "api-2"]);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn policy_name(&self, index: usize) -> PolicyName<'a> {
        policy_name(&self.limits, index)
    }

    /// Returns the time until a refused request can be retried, in seconds; at least one.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after_ms.map(|millis| millis.div_ceil(1000).max(1))
    }

    /// Returns the limits that are reported to clients, each with a name.
    pub(crate) fn policies(&self) -> impl Iterator<Item = (PolicyName<'a>, &LimitStatus<'a>)> {
        policies(&self.limits)
    }
}

/// Returns the state of each limit of a decision.
pub(super) fn limit_statuses(decision: &Decision) -> impl Iterator<Item = LimitStatus<'_>> {
    decision.limits().map(|limit| LimitStatus {
        rule: Some(limit.rule),
        unit: limit.unit,
        enforced: limit.enforced,
        mode: limit.mode,
        ..LimitStatus::new(limit.quota, &limit.verdict)
    })
}

/// Returns the limits that are reported to clients.
pub(super) fn reported<'l, 'a>(
    limits: &'l [LimitStatus<'a>],
) -> impl Iterator<Item = &'l LimitStatus<'a>> + Clone {
    limits.iter().filter(|limit| limit.is_reported())
}

/// Returns the limits that are reported to clients, each with a name: the rule's, and a number
/// where a rule has several.
pub(super) fn policies<'l, 'a>(
    limits: &'l [LimitStatus<'a>],
) -> impl Iterator<Item = (PolicyName<'a>, &'l LimitStatus<'a>)> {
    let reported = limits.iter().enumerate().filter(|(_, limit)| limit.is_reported());
    reported.map(|(index, limit)| (policy_name(limits, index), limit))
}

/// Returns the name of a limit. All limits of a rule count, so that a name does not depend on which
/// of them are reported.
fn policy_name<'a>(limits: &[LimitStatus<'a>], index: usize) -> PolicyName<'a> {
    let (earlier, rest) = limits.split_at(index.min(limits.len()));
    let rule = rest.first().and_then(|limit| limit.rule);
    let number = 1 + earlier.iter().filter(|other| other.rule == rule).count();
    PolicyName { rule: rule.unwrap_or(INLINE_RULE), number }
}

/// Returns the limit to report where only one fits: the one closest to refusing.
pub(super) fn tightest<'l, 'a>(limits: &'l [LimitStatus<'a>]) -> Option<&'l LimitStatus<'a>> {
    reported(limits).min_by_key(|limit| (limit.allowed, limit.remaining))
}

/// The name that inline limits have instead of that of a rule.
const INLINE_RULE: &str = "limit";

/// The name of a limit: `login`, and `login-2` for the second limit of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PolicyName<'a> {
    /// The name of the rule, or `limit` for an inline limit.
    pub rule: &'a str,
    /// The position of the limit in its rule, counted from 1.
    pub number: usize,
}

impl std::fmt::Display for PolicyName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.number {
            1 => f.write_str(self.rule),
            number => write!(f, "{}-{number}", self.rule),
        }
    }
}

impl<'a> LimitStatus<'a> {
    fn new(summary: LimitSummary, verdict: &Verdict) -> LimitStatus<'a> {
        LimitStatus {
            rule: None,
            limit: verdict.limit,
            window_s: window_s(summary, verdict.limit),
            policy: QuotaPolicy::new(summary, verdict.limit),
            unit: None,
            remaining: verdict.remaining,
            reset_after_ms: span_millis_up(verdict.reset_after),
            allowed: verdict.allowed,
            enforced: true,
            mode: Mode::Enforce,
        }
    }

    /// Returns the name of the rule, or `limit` without one.
    pub(super) fn rule_name(&self) -> &'a str {
        self.rule.unwrap_or(INLINE_RULE)
    }

    fn is_reported(&self) -> bool {
        self.enforced && self.limit != u64::MAX
    }

    /// Returns whether the limit is on concurrency.
    pub(crate) fn is_concurrency(&self) -> bool {
        self.window_s.is_none()
    }

    pub(crate) fn reset_after_s(&self) -> u64 {
        self.reset_after_ms.div_ceil(1000)
    }

    /// Returns what a client can spend until the time that [`reset_after_s`](Self::reset_after_s)
    /// tells, if it spreads it over that time.
    ///
    /// A limit whose burst is restored within a second is restored several times until then, and a
    /// client that keeps its rate has all but one of the quota left after each request.
    pub(crate) fn remaining_until_reset(&self) -> u64 {
        let Some(policy) = self.policy.filter(|policy| policy.quota > self.limit) else {
            return self.remaining;
        };
        match self.reset_after_ms {
            1..1000 if self.allowed && policy.is_steady && policy.seconds == 1 => policy.quota - 1,
            reset => {
                let later = u128::from(1000_u64.saturating_sub(reset));
                let restored =
                    u128::from(policy.quota) * later / (1000 * u128::from(policy.seconds));
                let restored = u64::try_from(restored).unwrap_or(u64::MAX);
                self.remaining.saturating_add(restored).min(policy.quota)
            }
        }
    }
}

/// Returns the seconds in which `limit` is restored.
fn window_s(summary: LimitSummary, limit: u64) -> Option<u64> {
    if summary.algorithm == AlgorithmName::Unlimited {
        return None;
    }
    let (period, amount) = (summary.period?.span().as_nanos(), summary.amount.max(1));
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

/// Returns a duration in milliseconds, rounded up.
pub fn millis_up(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn span_millis_up(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate::{Check, CounterId, Limit, MemoryStore};

    fn status(text: &str) -> (u64, Option<u64>) {
        let limit: Limit = text.parse().unwrap();
        let verdict =
            MemoryStore::new().decide_one_now(&Check::new(CounterId::new(0), "a", &limit, 1));
        let summary = DecisionSummary::from_verdict(limit.summary(), &verdict);
        (summary.limits[0].limit, summary.limits[0].window_s)
    }

    #[test]
    fn a_limit_is_restored_within_its_window() {
        assert_eq!(status("5/min"), (5, Some(60)));
        assert_eq!(status("10/s burst 20"), (20, Some(2)));
        assert_eq!(status("10/100ms"), (10, Some(1)), "never no time at all");
        assert_eq!(status("10/s burst 15"), (15, Some(2)));
        assert_eq!(status("20/h sliding"), (20, Some(3600)));
        assert_eq!(status("3 concurrent"), (3, None));
        assert_eq!(status("unlimited").1, None);
    }

    #[test]
    fn no_client_is_told_to_retry_at_once() {
        let limit: Limit = "1000/s burst 1".parse().unwrap();
        let store = MemoryStore::new();
        let check = Check::new(CounterId::new(0), "a", &limit, 1);
        let denied = loop {
            let verdict = store.decide_one_now(&check);
            if !verdict.allowed {
                break verdict;
            }
        };
        let summary = DecisionSummary::from_verdict(limit.summary(), &denied);
        assert_eq!((summary.retry_after_ms, summary.retry_after_s()), (Some(1), Some(1)));
        let huge = store.decide_one_now(&Check { cost: 2, ..check });
        let never = DecisionSummary::from_verdict(limit.summary(), &huge);
        assert_eq!((never.reason, never.retry_after_s()), (Reason::NeverFits, None));
    }
}
