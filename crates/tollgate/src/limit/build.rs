//! Limits put together by a program: how to begin. What follows is in `modify.rs`.

use std::time::Duration;

use tollgate_core::{InvalidLimit as Bounds, Span};

use super::spec::{Measure, Spec};
use super::unit::{Period, Unit};
use super::words::Word;
use super::{Engine, InvalidLimit, Limit};

impl Limit {
    /// A bucket of `n` tokens that refills `n` every `period`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// assert_eq!(Limit::new(5, Duration::from_secs(10))?.to_string(), "5/10s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn new(n: u64, period: Duration) -> Result<Limit, InvalidLimit> {
        if period.is_zero() {
            return Err(Bounds::ZeroPeriod.into());
        }
        match Period::exactly(period) {
            Some(period) => Limit::from_spec(Spec::new(n, Measure::Rate(period))),
            None => Err(InvalidLimit::PeriodTooFine(period)),
        }
    }

    fn per(n: u64, unit: Unit) -> Result<Limit, InvalidLimit> {
        Limit::from_spec(Spec::new(n, Measure::Rate(Period { count: 1, unit })))
    }

    /// `n` tokens every second: `n/s`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.to_string(), "10/s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_second(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Second)
    }

    /// `n` tokens every minute: `n/min`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(60)?.to_string(), "60/min");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_minute(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Minute)
    }

    /// `n` tokens every hour: `n/h`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(5_000)?.to_string(), "5k/h");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_hour(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Hour)
    }

    /// `n` tokens every 24 hours: `n/day`. For real days, see [`calendar`](Limit::calendar).
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_day(100)?.to_string(), "100/day");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_day(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Day)
    }

    /// `n` tokens every 7 days: `n/week`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_week(100)?.to_string(), "100/week");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_week(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Week)
    }

    /// `n` tokens every 30 days: `n/month`. For real months, see [`calendar`](Limit::calendar).
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_month(100)?.to_string(), "100/month");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_month(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Month)
    }

    /// `n` tokens every 365 days: `n/year`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_year(100)?.to_string(), "100/year");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn per_year(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::per(n, Unit::Year)
    }

    /// `n` at a time: `n concurrent`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::concurrent(100)?.to_string(), "100 concurrent");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn concurrent(n: u64) -> Result<Limit, InvalidLimit> {
        Limit::from_spec(Spec::new(n, Measure::Concurrent))
    }

    /// Between `min` and `max` at a time, as the callee bears: `adaptive min..max concurrent`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::adaptive(20, 500)?.to_string(), "adaptive 20..500 concurrent");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn adaptive(min: u64, max: u64) -> Result<Limit, InvalidLimit> {
        Limit::from_spec(Spec::new(max, Measure::Adaptive { min }))
    }

    /// No limit at all: `unlimited`.
    ///
    /// ```
    /// assert_eq!(tollgate::Limit::unlimited().capacity(), u64::MAX);
    /// ```
    pub fn unlimited() -> Limit {
        let spec = Spec::new(u64::MAX, Measure::Unlimited);
        let quota = spec.quota(Word::Unlimited);
        Limit { spec, engine: Engine::Unlimited, quota, fill_time: Span::ZERO }
    }
}
