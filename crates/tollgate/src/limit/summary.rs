//! The short form of a limit, small enough to be part of every refusal.

use std::fmt;

use tollgate_core::Span;

use super::display::NumberText;
use super::unit::{Period, SpanText};

/// The name of the algorithm of a limit.
///
/// ```
/// use tollgate::limit::{AlgorithmName, Limit};
/// let limit: Limit = "500/h sliding".parse()?;
/// assert_eq!(limit.summary().algorithm, AlgorithmName::SlidingWindow);
/// assert_eq!(AlgorithmName::SlidingWindow.as_str(), "sliding_window");
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlgorithmName {
    /// Tokens are refilled at the rate, up to `burst`.
    TokenBucket,
    /// A token bucket that delays requests to keep the rate.
    LeakyBucket,
    /// The token bucket under the name of its one-number form.
    Gcra,
    /// A count that starts at zero with every window.
    FixedWindow,
    /// A count over the last window's length, estimated from two counters or from slots.
    SlidingWindow,
    /// A count over the last window's length, exact.
    SlidingLog,
    /// A rate that starts slowly after an idle time.
    WarmUp,
    /// A fixed number of requests in flight.
    Concurrent,
    /// A number of requests in flight that adapts to latency.
    Adaptive,
    /// No limit.
    Unlimited,
}

impl AlgorithmName {
    /// Returns the name as in rules and metrics.
    ///
    /// ```
    /// use tollgate::limit::AlgorithmName;
    /// assert_eq!(AlgorithmName::TokenBucket.as_str(), "token_bucket");
    /// ```
    pub const fn as_str(self) -> &'static str {
        match self {
            AlgorithmName::TokenBucket => "token_bucket",
            AlgorithmName::LeakyBucket => "leaky_bucket",
            AlgorithmName::Gcra => "gcra",
            AlgorithmName::FixedWindow => "fixed_window",
            AlgorithmName::SlidingWindow => "sliding_window",
            AlgorithmName::SlidingLog => "sliding_log",
            AlgorithmName::WarmUp => "warm_up",
            AlgorithmName::Concurrent => "concurrent",
            AlgorithmName::Adaptive => "adaptive",
            AlgorithmName::Unlimited => "unlimited",
        }
    }
}

impl fmt::Display for AlgorithmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A short form of a limit: the amount, the period, the algorithm and the burst.
///
/// A summary prints as a valid limit, without the label of the unit, the time zone, slots and leases.
///
/// ```
/// use tollgate::limit::Limit;
/// let limit: Limit = "200k tokens/min burst 300k".parse()?;
/// let summary = limit.summary();
/// assert_eq!((summary.amount, summary.burst), (200_000, 300_000));
/// assert_eq!(summary.to_string(), "200k/min burst 300k");
/// assert!(size_of_val(&summary) <= 48);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitSummary {
    /// The amount per period, or the maximum in flight if there is no period.
    ///
    /// For `unlimited` it is `u64::MAX`.
    pub amount: u64,
    /// The period of a rate; `None` for concurrent, adaptive and unlimited limits.
    pub period: Option<Period>,
    /// The name of the algorithm.
    pub algorithm: AlgorithmName,
    /// The most that passes at once: the capacity of a bucket, otherwise the amount.
    pub burst: u64,
    pub(super) detail: SummaryDetail,
}

/// The parameter that a summary needs to print as a valid limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SummaryDetail {
    Nothing,
    Calendar,
    AtLeast(u64),
    WarmUp(Span),
}

impl fmt::Display for LimitSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.algorithm, self.detail) {
            (AlgorithmName::Unlimited, _) => return f.write_str("unlimited"),
            (_, SummaryDetail::AtLeast(min)) => {
                return write!(
                    f,
                    "adaptive {}..{} concurrent",
                    NumberText(min),
                    NumberText(self.amount)
                );
            }
            _ => write!(f, "{}", NumberText(self.amount))?,
        }
        match self.period {
            Some(period) => write!(f, "/{period}")?,
            None => f.write_str(" concurrent")?,
        }
        match (self.algorithm, self.detail) {
            (_, SummaryDetail::Calendar) => f.write_str(" calendar")?,
            (_, SummaryDetail::WarmUp(span)) => write!(f, " warmup {}", SpanText(span))?,
            (AlgorithmName::LeakyBucket, _) => f.write_str(" leaky")?,
            (AlgorithmName::Gcra, _) => f.write_str(" gcra")?,
            (AlgorithmName::FixedWindow, _) => f.write_str(" fixed")?,
            (AlgorithmName::SlidingWindow, _) => f.write_str(" sliding")?,
            (AlgorithmName::SlidingLog, _) => f.write_str(" log")?,
            _ => {}
        }
        match self.burst == self.amount {
            true => Ok(()),
            false => write!(f, " burst {}", NumberText(self.burst)),
        }
    }
}
