//! Limits: `10/s burst 20` as a checked value.
//!
//! A [`Limit`] is parsed from text, as in rules, or built in code. Both ways check it once, so
//! every `Limit` value is valid.
//!
//! | text | means |
//! | --- | --- |
//! | `10/s` | token bucket: 10 tokens are refilled each second, the capacity is 10 |
//! | `10/s burst 20` | a token bucket with a capacity of 20 |
//! | `5/10s`, `1k/h`, `5M tokens/day` | other periods, numbers, and a label of the unit that is counted |
//! | `20/s leaky burst 50` | accepts 50 at once and delays them to one every 50 ms |
//! | `20/s leaky free 5` | a leaky bucket that lets 5 pass without delay |
//! | `10/s gcra` | the token bucket under the name of its one-number form |
//! | `60/min interval` | a token bucket that refills all 60 together, at each full minute |
//! | `100/h fixed` | fixed windows, aligned to the epoch; `first_hit`: to the key's first request |
//! | `1k/month calendar` | calendar months, in UTC; `zone Europe/Berlin`, `anchor 15` |
//! | `500/h sliding` | sliding window of two counters; `slots 60`: of 60 slots |
//! | `500/h log` | sliding window, exact; `min_gap 100ms` |
//! | `10/s warmup 3s` | starts at a third of the rate after an idle time |
//! | `100 concurrent` | 100 requests in flight, each for 60 s at most; `lease 10s` |
//! | `adaptive 20..500 concurrent` | 20 to 500 requests in flight, adapted to latency; `aimd`, `vegas`, `gradient2`: other controllers |
//! | `unlimited` | everything passes |
//!
//! Further options: `initial 5` (tokens of a new key), `pay_later` (any cost passes while there
//! is no debt; later requests wait), `count_denied` (windows and logs count refusals too).
//!
//! A log stores every request of its window, and a concurrency limit every permit in use, so both are
//! limited to [`MAX_ENTRIES`]. A sliding window has no such bound.
//!
//! `burst` is the most that passes at once. In redis-cell `max_burst` is one less; in nginx
//! `burst` does not include the one request that always passes. Case does not matter, except
//! that `M` is a million and `m` is an error: a minute is `min`.
//!
//! ```
//! use tollgate::Limit;
//!
//! let limit: Limit = "10/s burst 20".parse()?;
//! assert_eq!(limit, Limit::per_second(10)?.burst(20)?);
//! assert_eq!(limit.to_string(), "10/s burst 20");
//! assert_eq!(limit.capacity(), 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod build;
mod calendar;
mod display;
mod error;
pub mod grammar;
mod grammar_error;
mod hints;
mod keyword;
mod modify;
mod number;
mod options;
mod parse;
mod share;
mod size;
mod spec;
mod summary;
mod unit;

use std::str::FromStr;

use tollgate_core::Span;

pub use algorithm::{AdaptiveRange, ControllerKind, LimitAlgorithm};
pub use error::{InvalidLimit, ParseLimitError};
pub use size::MAX_ENTRIES;
pub use summary::{AlgorithmName, LimitSummary};
pub use unit::{Period, Unit};

use spec::Spec;

/// A checked limit: how much may pass in which time, and the algorithm that counts it.
///
/// ```
/// use tollgate::Limit;
/// let limit: Limit = "500/h sliding".parse()?;
/// assert_eq!(limit, Limit::per_hour(500)?.sliding()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    spec: Spec,
    algorithm: LimitAlgorithm,
    summary: LimitSummary,
    fill_time: Span,
}

impl Limit {
    /// Checks and compiles a spec. Every constructor ends here.
    fn from_spec(spec: Spec) -> Result<Limit, InvalidLimit> {
        let spec = spec.canonical()?;
        let name = spec.algorithm()?;
        let algorithm = algorithm::compile(&spec, name)?;
        size::check(&algorithm)?;
        let summary = spec.summary(name);
        let fill_time = algorithm::fill_time(&spec, &algorithm);
        Ok(Limit { spec, algorithm, summary, fill_time })
    }

    /// Returns the algorithm with its parameters.
    ///
    /// ```
    /// use tollgate::{LimitAlgorithm, Limit};
    /// assert!(matches!(Limit::per_second(10)?.algorithm(), LimitAlgorithm::Meter(_)));
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn algorithm(&self) -> &LimitAlgorithm {
        &self.algorithm
    }

    /// Returns a short form of the limit, as reported with every refusal.
    ///
    /// ```
    /// let summary = tollgate::Limit::per_second(10)?.burst(20)?.summary();
    /// assert_eq!((summary.amount, summary.burst), (10, 20));
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn summary(&self) -> LimitSummary {
        self.summary
    }

    /// Returns the most that can pass at once; `u64::MAX` for `unlimited`.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::concurrent(100)?.capacity(), 100);
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn capacity(&self) -> u64 {
        self.algorithm.capacity()
    }

    /// Returns the longest time until the state of an exhausted key equals that of a new key.
    ///
    /// A store can drop the state after that time. For a sliding window it is two lengths of
    /// the window, for `unlimited` zero.
    ///
    /// ```
    /// use tollgate::Limit;
    /// use tollgate_core::Span;
    /// assert_eq!(Limit::per_second(10)?.burst(20)?.fill_time(), Span::from_secs(2));
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn fill_time(&self) -> Span {
        self.fill_time
    }

    /// Returns the label of the unit that is counted: the `tokens` of `200k tokens/min`.
    ///
    /// ```
    /// let limit: tollgate::Limit = "200k tokens/min".parse()?;
    /// assert_eq!(limit.unit_label(), Some("tokens"));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn unit_label(&self) -> Option<&str> {
        self.spec.label.as_deref()
    }

    /// Returns whether the windows are calendar days, weeks, months or years.
    pub fn is_calendar(&self) -> bool {
        self.spec.has(keyword::Keyword::Calendar)
    }

    /// Returns the time zone that a calendar limit names; without one it uses UTC.
    ///
    /// ```
    /// let limit: tollgate::Limit = "1k/month calendar zone europe/berlin".parse()?;
    /// assert_eq!(limit.time_zone(), Some("Europe/Berlin"));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn time_zone(&self) -> Option<&str> {
        self.spec.zone()
    }
}

/// Compares canonical texts: two limits are equal if they print alike.
impl PartialEq for Limit {
    fn eq(&self, other: &Limit) -> bool {
        self.spec == other.spec
    }
}

impl Eq for Limit {}

impl FromStr for Limit {
    type Err = ParseLimitError;

    fn from_str(text: &str) -> Result<Limit, ParseLimitError> {
        parse::limit(text)
    }
}

#[cfg(test)]
mod tests;
