//! Limits: `10/s burst 20` as a checked value.
//!
//! A [`Limit`] is written as text, the way rules do, or put together by a program. Either way
//! it is checked once, here; whoever holds one need not look again.
//!
//! | text | means |
//! | --- | --- |
//! | `10/s` | token bucket: 10 tokens come back each second, 10 wait at most |
//! | `10/s burst 20` | the same, but 20 wait at most |
//! | `5/10s`, `1k/h`, `5M tokens/day` | other periods, numbers, and a label for what is counted |
//! | `20/s leaky burst 50` | 50 are taken in at once and held back to one every 50 ms |
//! | `20/s leaky free 5` | the same, but 5 of them go on at once |
//! | `10/s gcra` | the token bucket under the name of its one-number form |
//! | `60/min interval` | all 60 come back together, with each minute of the clock |
//! | `100/h fixed` | fixed windows, aligned to the epoch; `first_hit`: to the key's first request |
//! | `1k/month calendar` | real months, in UTC; `zone Europe/Berlin`, `anchor 15` |
//! | `500/h sliding` | sliding window of two counters; `slots 60`: of sixty |
//! | `500/h log` | sliding window, exact; `min_gap 100ms` |
//! | `10/s warmup 3s` | starts at a third of the rate when idle before |
//! | `100 concurrent` | so many at a time, each for 60 s at most; `lease 10s` |
//! | `adaptive 20..500 concurrent` | so many at a time as the callee bears; `aimd`, `vegas`, `gradient2`: as others find out |
//! | `unlimited` | everything passes |
//!
//! Further options: `initial 5` (a new key's tokens), `pay_later` (whoever finds nothing owed
//! passes, the next one waits), `count_denied` (windows and logs count refusals too).
//!
//! `burst` is all that passes at once, where redis-cell's `max_burst` is one less and nginx's
//! comes on top of the one that always passes. Case does not matter, except that `M` is a
//! million and `m` nothing at all: a minute is `min`.
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

mod build;
mod calendar;
mod display;
mod engine;
mod error;
mod fault;
#[cfg(feature = "rules")]
pub(crate) mod grammar;
mod hints;
mod modify;
mod number;
mod options;
mod parse;
mod quota;
mod share;
mod spec;
mod unit;
mod words;

use std::str::FromStr;

use tollgate_core::Span;

pub use engine::{AdaptiveRange, Engine, Steering};
pub use error::{InvalidLimit, ParseLimitError};
pub use quota::{AlgorithmName, Quota};
pub use unit::{Period, Unit};

use spec::Spec;

/// How much may pass in what time, by which algorithm: checked, and ready to run.
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
    engine: Engine,
    quota: Quota,
    fill_time: Span,
}

impl Limit {
    /// Checks a spec and compiles it: the only way to a `Limit`.
    fn from_spec(spec: Spec) -> Result<Limit, InvalidLimit> {
        let spec = spec.canonical()?;
        let algorithm = spec.algorithm()?;
        let engine = engine::compile(&spec, algorithm)?;
        let (quota, fill_time) = (spec.quota(algorithm), engine::fill_time(&spec, &engine));
        Ok(Limit { spec, engine, quota, fill_time })
    }

    /// The algorithm to run, with its parameters.
    ///
    /// ```
    /// use tollgate::{Engine, Limit};
    /// assert!(matches!(Limit::per_second(10)?.engine(), Engine::Meter(_)));
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The limit in brief.
    ///
    /// ```
    /// let quota = tollgate::Limit::per_second(10)?.burst(20)?.quota();
    /// assert_eq!((quota.amount, quota.burst), (10, 20));
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The most that can pass at once; `u64::MAX` without a limit.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::concurrent(100)?.capacity(), 100);
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn capacity(&self) -> u64 {
        self.engine.capacity()
    }

    /// How long a key that has spent everything takes to be as good as new, at most: what its
    /// state is worth keeping for. Two lengths for a sliding window; nothing without a limit.
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

    /// What is counted, if the limit says so: the `tokens` of `200k tokens/min`.
    ///
    /// ```
    /// let limit: tollgate::Limit = "200k tokens/min".parse()?;
    /// assert_eq!(limit.unit_label(), Some("tokens"));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn unit_label(&self) -> Option<&str> {
        self.spec.label.as_deref()
    }

    /// Whether its windows are those of the calendar.
    #[cfg(feature = "rules")]
    pub(crate) fn is_calendar(&self) -> bool {
        self.spec.has(words::Word::Calendar)
    }

    /// The time zone of a calendar limit that names one; others run on UTC.
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

/// Limits are equal if they are written alike: the same canonical text.
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
