//! A limit in brief: small enough to travel inside every refusal.

use std::fmt;

use tollgate_core::Span;

use super::display::Number;
use super::unit::{Period, SpanText};

/// The algorithm behind a limit, named as users name it.
///
/// ```
/// use tollgate::limit::{AlgorithmName, Limit};
/// let limit: Limit = "500/h sliding".parse()?;
/// assert_eq!(limit.quota().algorithm, AlgorithmName::SlidingWindow);
/// assert_eq!(AlgorithmName::SlidingWindow.as_str(), "sliding_window");
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlgorithmName {
    /// Tokens come back at the rate; up to `burst` of them wait.
    TokenBucket,
    /// The same meter, holding requests back to the rate.
    LeakyBucket,
    /// The same meter, under the name of its one-number form.
    Gcra,
    /// A count that starts anew with every window.
    FixedWindow,
    /// A count over the last window's length, estimated from two counters or from slots.
    SlidingWindow,
    /// A count over the last window's length, exact.
    SlidingLog,
    /// A rate that starts slowly after idling.
    WarmUp,
    /// So many at a time.
    Concurrent,
    /// So many at a time, as many as the callee bears.
    Adaptive,
    /// No limit at all.
    Unlimited,
}

impl AlgorithmName {
    /// The name in rules and metrics.
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

/// A limit in brief: how much, in what time, by which algorithm.
///
/// It prints as a limit that parses, without what a refusal need not repeat (the unit's label,
/// the time zone, slots, leases).
///
/// ```
/// use tollgate::limit::Limit;
/// let limit: Limit = "200k tokens/min burst 300k".parse()?;
/// let quota = limit.quota();
/// assert_eq!((quota.amount, quota.burst), (200_000, 300_000));
/// assert_eq!(quota.to_string(), "200k/min burst 300k");
/// assert!(size_of_val(&quota) <= 48);
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    /// How much in each period; at a time if there is none. Of an adaptive limit the most, of
    /// an unlimited one `u64::MAX`.
    pub amount: u64,
    /// In what time; `None` for what is counted at a time, and for no limit.
    pub period: Option<Period>,
    /// By which algorithm.
    pub algorithm: AlgorithmName,
    /// The most that passes at once: what a bucket holds, otherwise the amount.
    pub burst: u64,
    pub(super) detail: Detail,
}

/// What else an algorithm cannot be named without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Detail {
    Nothing,
    Calendar,
    AtLeast(u64),
    WarmUp(Span),
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.algorithm, self.detail) {
            (AlgorithmName::Unlimited, _) => return f.write_str("unlimited"),
            (_, Detail::AtLeast(min)) => {
                return write!(f, "adaptive {}..{} concurrent", Number(min), Number(self.amount));
            }
            _ => write!(f, "{}", Number(self.amount))?,
        }
        match self.period {
            Some(period) => write!(f, "/{period}")?,
            None => f.write_str(" concurrent")?,
        }
        match (self.algorithm, self.detail) {
            (_, Detail::Calendar) => f.write_str(" calendar")?,
            (_, Detail::WarmUp(span)) => write!(f, " warmup {}", SpanText(span))?,
            (AlgorithmName::LeakyBucket, _) => f.write_str(" leaky")?,
            (AlgorithmName::Gcra, _) => f.write_str(" gcra")?,
            (AlgorithmName::FixedWindow, _) => f.write_str(" fixed")?,
            (AlgorithmName::SlidingWindow, _) => f.write_str(" sliding")?,
            (AlgorithmName::SlidingLog, _) => f.write_str(" log")?,
            _ => {}
        }
        match self.burst == self.amount {
            true => Ok(()),
            false => write!(f, " burst {}", Number(self.burst)),
        }
    }
}
