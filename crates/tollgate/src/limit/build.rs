//! Constructors of [`Limit`]. The methods that add options are in `modify.rs`.

use std::time::Duration;

use tollgate_core::{InvalidLimit as CoreInvalidLimit, Span};

use super::keyword::Keyword;
use super::spec::{Measure, Spec};
use super::unit::{Period, Unit};
use super::{InvalidLimit, Limit, LimitAlgorithm};

impl Limit {
    /// Creates a token bucket of `n` tokens that refills `n` every `period`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// assert_eq!(Limit::new(5, Duration::from_secs(10))?.to_string(), "5/10s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn new(n: u64, period: Duration) -> Result<Limit, InvalidLimit> {
        if period.is_zero() {
            return Err(CoreInvalidLimit::ZeroPeriod.into());
        }
        match Period::from_duration(period) {
            Some(period) => Limit::from_spec(Spec::new(n, Measure::Rate(period))),
            None => Err(InvalidLimit::PeriodTooFine(period)),
        }
    }

    fn per(n: u64, unit: Unit) -> Result<Limit, InvalidLimit> {
        Limit::from_spec(Spec::new(n, Measure::Rate(Period { count: 1, unit })))
    }

    /// Creates a limit of `n` tokens every second: `n/s`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.to_string(), "10/s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_second(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Second)
    }

    /// Creates a limit of `n` tokens every minute: `n/min`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(60)?.to_string(), "60/min");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_minute(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Minute)
    }

    /// Creates a limit of `n` tokens every hour: `n/h`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(5_000)?.to_string(), "5k/h");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_hour(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Hour)
    }

    /// Creates a limit of `n` tokens every 24 hours: `n/day`.
    ///
    /// For calendar days, see [`calendar`](Limit::calendar).
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_day(100)?.to_string(), "100/day");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_day(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Day)
    }

    /// Creates a limit of `n` tokens every 7 days: `n/week`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_week(100)?.to_string(), "100/week");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_week(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Week)
    }

    /// Creates a limit of `n` tokens every 30 days: `n/month`.
    ///
    /// For calendar months, see [`calendar`](Limit::calendar).
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_month(100)?.to_string(), "100/month");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_month(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Month)
    }

    /// Creates a limit of `n` tokens every 365 days: `n/year`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_year(100)?.to_string(), "100/year");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_year(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Year)
    }

    /// Creates a limit of `n` requests in flight: `n concurrent`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::concurrent(100)?.to_string(), "100 concurrent");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn concurrent(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::from_spec(Spec::new(n, Measure::Concurrent))
    }

    /// Creates a limit of `min` to `max` requests in flight: `adaptive min..max concurrent`.
    ///
    /// A [controller](Limit::controller) adapts the number to the latency of the responses.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::adaptive(20, 500)?.to_string(), "adaptive 20..500 concurrent");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn adaptive(min: u64, max: u64) -> Result<Limit, InvalidLimit> {
        Limit::from_spec(Spec::new(max, Measure::Adaptive { min }))
    }

    /// Creates a limit that allows everything: `unlimited`.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::unlimited().capacity(), u64::MAX);
    /// ```
    pub fn unlimited() -> Limit {
        let spec = Spec::new(u64::MAX, Measure::Unlimited);
        let summary = spec.summary(Keyword::Unlimited);
        Limit { spec, algorithm: LimitAlgorithm::Unlimited, summary, fill_time: Span::ZERO }
    }
}
