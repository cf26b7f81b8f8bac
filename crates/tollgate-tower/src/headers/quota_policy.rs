//! The quota and the window that clients are told.

use tollgate::LimitSummary;
use tollgate::limit::AlgorithmName;

/// The numbers of structured fields have at most 15 digits.
pub(super) const MAX_NUMBER: u64 = 999_999_999_999_999;

/// A quota for a window of whole seconds: the `q` and `w` of a policy.
///
/// A client that spreads the quota over the window is neither slower than the limit nor refused, so
/// the quotient of both is exactly the rate of the limit. The quota is the burst, or what is below it
/// and makes a window of whole seconds: `10/s burst 15` is 10 in one second. If the burst is restored
/// within a second, the quota is larger than it: `1000/s burst 1` is 1000 in one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaPolicy {
    /// The quota.
    pub quota: u64,
    /// The length of the window in seconds.
    pub seconds: u64,
    /// Whether requests at exactly the rate always pass, once one did.
    pub(super) is_steady: bool,
}

impl QuotaPolicy {
    /// Returns the policy of a limit whose burst is `limit`; none for a concurrency limit.
    pub(super) fn new(summary: LimitSummary, limit: u64) -> Option<QuotaPolicy> {
        if summary.algorithm == AlgorithmName::Unlimited {
            return None;
        }
        let (period, amount) = (summary.period?.span().as_nanos(), summary.amount.max(1));
        // An estimate refuses some of them, and a cold start is slower.
        let is_steady =
            !matches!(summary.algorithm, AlgorithmName::SlidingWindow | AlgorithmName::WarmUp);
        // Everyday limits fit into 64 bits, and dividing twice as many takes many times as long.
        if let (Some(product), Some(per_second)) =
            (period.checked_mul(limit), amount.checked_mul(1_000_000_000))
            && product.is_multiple_of(per_second)
            && product > 0
        {
            return Some(QuotaPolicy { quota: limit, seconds: product / per_second, is_steady });
        }
        let (quota, seconds) = in_whole_seconds(period, amount, limit);
        Some(QuotaPolicy { quota, seconds, is_steady })
    }
}

/// Returns the largest quota up to `limit` that is restored in whole seconds, and these; or else the
/// smallest one beyond it.
#[cold]
fn in_whole_seconds(period: u64, amount: u64, limit: u64) -> (u64, u64) {
    let (period, limit) = (u128::from(period.max(1)), u128::from(limit));
    let per_second = u128::from(amount) * 1_000_000_000;
    // The fewest seconds in which a whole number is restored.
    let step = period / greatest_divisor(per_second, period);
    let restored = (period.saturating_mul(limit) / per_second) / step * step;
    let seconds = restored.max(step);
    let quota = per_second.saturating_mul(seconds) / period;
    let most = u128::from(MAX_NUMBER);
    if quota.max(seconds) <= most {
        return (quota as u64, seconds as u64);
    }
    // Such numbers cannot be told. The client is told less.
    let seconds = period.saturating_mul(limit).div_ceil(per_second).max(1);
    (limit.min(most) as u64, seconds.min(most) as u64)
}

fn greatest_divisor(mut one: u128, mut two: u128) -> u128 {
    while two > 0 {
        (one, two) = (two, one % two);
    }
    one.max(1)
}

#[cfg(test)]
mod tests {
    use tollgate::Limit;

    use super::*;

    #[test]
    fn quota_and_window_make_the_rate() {
        for (text, quota, seconds) in [
            ("5/min", 5, 60),
            ("20/h sliding", 20, 3600),
            ("10/s burst 20", 20, 2),
            ("10/s burst 15", 10, 1),
            ("1000/s burst 1", 1000, 1),
            ("10/100ms", 100, 1),
            ("10/100ms fixed", 100, 1),
            ("2/1500ms", 4, 3),
            ("1/1500ms", 2, 3),
            ("7/13ms", 7000, 13),
            ("100/min burst 1", 5, 3),
            ("116/1000s burst 1", 29, 250),
            ("1k/month calendar", 1000, 2_592_000),
            ("200k tokens/min", 200_000, 60),
        ] {
            let limit: Limit = text.parse().unwrap();
            let policy = QuotaPolicy::new(limit.summary(), limit.capacity()).unwrap();
            assert_eq!((policy.quota, policy.seconds), (quota, seconds), "{text}");
        }
        for text in ["3 concurrent", "unlimited"] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(QuotaPolicy::new(limit.summary(), limit.capacity()), None, "{text}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_told_promise_less() {
        let limit: Limit = "1000000000000000/ms".parse().unwrap();
        let policy = QuotaPolicy::new(limit.summary(), limit.capacity()).unwrap();
        assert!(policy.quota <= MAX_NUMBER && policy.seconds == 1);
    }
}
