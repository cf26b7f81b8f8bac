//! Methods that add options to a [`Limit`] in code.
//!
//! Each call checks the whole limit, so an option that contradicts an earlier one is an error.
//! Repeating an option replaces its value.

use std::time::Duration;

use tollgate_core::{Algorithm, Meter, MeterParts, Span};

use super::error::MAX_LABEL;
use super::keyword::Keyword;
use super::parse::is_label;
use super::spec::{Measure, OptionValue};
use super::{ControllerKind, InvalidLimit, Limit, LimitAlgorithm};

impl Limit {
    /// Sets the label of the unit that is counted: the `tokens` of `200k tokens/min`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(200_000)?.label("tokens")?.to_string(), "200k tokens/min");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn label(mut self, label: &str) -> Result<Limit, InvalidLimit> {
        if !is_label(label) {
            return Err(InvalidLimit::Label(label.chars().take(MAX_LABEL).collect()));
        }
        if !matches!(self.spec.measure, Measure::Rate(_)) {
            let with = self.spec.algorithm()?.as_str();
            return Err(InvalidLimit::IncompatibleOption { option: "label", with });
        }
        self.spec.label = Some(label.into());
        Ok(self)
    }

    fn with(mut self, keyword: Keyword, value: OptionValue) -> Result<Limit, InvalidLimit> {
        self.spec.set(keyword, value);
        Limit::from_spec(self.spec)
    }

    /// Sets the capacity of the bucket, which is the most that passes at once: `burst tokens`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.burst(20)?.to_string(), "10/s burst 20");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn burst(self, tokens: u64) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Burst, OptionValue::Number(tokens))
    }

    /// Starts a new key with `tokens` instead of a full bucket: `initial tokens`.
    ///
    /// Set a burst above the amount before this, because `tokens` must fit it.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.initial(0)?.to_string(), "10/s initial 0");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn initial(self, tokens: u64) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Initial, OptionValue::Number(tokens))
    }

    /// Refills all tokens of a period together, at its end: `interval`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(60)?.interval()?.to_string(), "60/min interval");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn interval(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Interval, OptionValue::Nothing)
    }

    /// Allows any cost while there is no debt; later requests wait until it is paid: `pay_later`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.pay_later()?.to_string(), "10/s pay_later");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn pay_later(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::PayLater, OptionValue::Nothing)
    }

    /// Shapes traffic with a leaky bucket: `leaky free N`.
    ///
    /// `free` requests of a burst pass without delay; the rest are delayed to keep the rate.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit = Limit::per_second(20)?.burst(50)?.leaky(5)?;
    /// assert_eq!(limit.to_string(), "20/s leaky free 5 burst 50");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn leaky(mut self, free: u64) -> Result<Limit, InvalidLimit> {
        self.spec.set(Keyword::Leaky, OptionValue::Nothing);
        self.with(Keyword::Free, OptionValue::Number(free))
    }

    /// Reports the token bucket under the name of the equivalent algorithm GCRA: `gcra`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.gcra()?.to_string(), "10/s gcra");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn gcra(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Gcra, OptionValue::Nothing)
    }

    /// Counts in fixed windows that are aligned to the Unix epoch: `fixed`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(100)?.fixed()?.to_string(), "100/h fixed");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn fixed(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Fixed, OptionValue::Nothing)
    }

    /// Counts in fixed windows that begin with the first request of a key: `fixed first_hit`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(100)?.first_hit()?.to_string(), "100/h fixed first_hit");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn first_hit(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::FirstHit, OptionValue::Nothing)
    }

    /// Counts in the days, weeks, months or years of a time zone: `calendar zone NAME`.
    ///
    /// `zone` is an IANA name.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit = Limit::per_month(1000)?.calendar("Europe/Berlin")?.anchor_day(15)?;
    /// assert_eq!(limit.to_string(), "1k/month calendar zone Europe/Berlin anchor 15");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn calendar(mut self, zone: &str) -> Result<Limit, InvalidLimit> {
        self.spec.set(Keyword::Calendar, OptionValue::Nothing);
        self.with(Keyword::Zone, OptionValue::Zone(zone.into()))
    }

    /// Sets the day on which calendar months or weeks begin: `anchor day`.
    ///
    /// In months with fewer days it is the last day. Of a week, day 1 is Monday.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_week(100)?.anchor_day(7)?.to_string(), "100/week calendar anchor 7");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn anchor_day(self, day: u64) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Anchor, OptionValue::Number(day))
    }

    /// Counts in a sliding window that is estimated from two counters: `sliding`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.sliding()?.to_string(), "500/h sliding");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn sliding(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Sliding, OptionValue::Nothing)
    }

    /// Counts in a sliding window of `n` equal slots: `sliding slots n`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.slots(60)?.to_string(), "500/h sliding slots 60");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn slots(self, n: u32) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Slots, OptionValue::Number(n.into()))
    }

    /// Counts in an exact sliding window, which stores the time of every request: `log`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.log()?.to_string(), "500/h log");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn log(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Log, OptionValue::Nothing)
    }

    /// Requires at least `gap` between two requests: `log min_gap D`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// let limit = Limit::per_hour(500)?.min_gap(Duration::from_millis(100))?;
    /// assert_eq!(limit.to_string(), "500/h log min_gap 100ms");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn min_gap(self, gap: Duration) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::MinGap, OptionValue::Span(gap.into()))
    }

    /// Counts refused requests too, so that hammering delays the next success: `count_denied`.
    ///
    /// Valid for windows and logs.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.log()?.count_denied()?.to_string(), "500/h log count_denied");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn count_denied(self) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::CountDenied, OptionValue::Nothing)
    }

    /// Starts below the rate after an idle time and reaches it within `warm_up`: `warmup D`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// let limit = Limit::per_second(10)?.warm_up(Duration::from_secs(3))?;
    /// assert_eq!(limit.to_string(), "10/s warmup 3s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn warm_up(self, warm_up: Duration) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::WarmUp, OptionValue::Span(warm_up.into()))
    }

    /// Shortens the time of a token to whole nanoseconds, as redis-cell does; at least one.
    ///
    /// The arrival times of such limits are whole nanoseconds too, so that several limits can [share a
    /// counter](crate::Check::limit_varies). The text of the limit stays the same. This has an
    /// effect only on token buckets without options.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit = Limit::per_second(3)?.burst(6)?;
    /// assert_eq!(limit.fill_time().as_nanos(), 2_000_000_000);
    /// assert_eq!(limit.with_whole_nanoseconds().fill_time().as_nanos(), 6 * 333_333_333);
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn with_whole_nanoseconds(mut self) -> Limit {
        if let LimitAlgorithm::Meter(meter) = &self.algorithm
            && meter.as_plain().is_some()
        {
            let MeterParts { rate, period, .. } = meter.parts();
            let token = Span::from_nanos((period / rate).max(1));
            // A shorter time of a token makes no valid meter invalid.
            if let Ok(meter) = Meter::new(1, token, meter.capacity()) {
                self.fill_time = meter.fill_time();
                self.algorithm = LimitAlgorithm::Meter(meter);
            }
        }
        self
    }

    /// Sets how long a permit lasts without release or renewal: `100 concurrent lease D`.
    ///
    /// The default is 60 seconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// let limit = Limit::concurrent(100)?.lease(Duration::from_secs(10))?;
    /// assert_eq!(limit.to_string(), "100 concurrent lease 10s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn lease(self, lease: Duration) -> Result<Limit, InvalidLimit> {
        self.with(Keyword::Lease, OptionValue::Span(lease.into()))
    }

    /// Sets the controller of an adaptive limit: `aimd`, `vegas`, `gradient2`.
    ///
    /// ```
    /// use tollgate::limit::{Limit, ControllerKind};
    /// let limit = Limit::adaptive(20, 500)?.controller(ControllerKind::Aimd)?;
    /// assert_eq!(limit.to_string(), "adaptive 20..500 concurrent aimd");
    /// assert_eq!(limit.controller(ControllerKind::Flow)?, Limit::adaptive(20, 500)?);
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn controller(mut self, controller: ControllerKind) -> Result<Limit, InvalidLimit> {
        for keyword in [Keyword::Aimd, Keyword::Vegas, Keyword::Gradient2] {
            self.spec.unset(keyword);
        }
        let keyword = match controller {
            ControllerKind::Flow => return Limit::from_spec(self.spec),
            ControllerKind::Aimd => Keyword::Aimd,
            ControllerKind::Vegas => Keyword::Vegas,
            ControllerKind::Gradient2 => Keyword::Gradient2,
        };
        self.with(keyword, OptionValue::Nothing)
    }
}
