//! Limits put together by a program: a constructor, then modifiers, each checked at once.

use std::time::Duration;

use tollgate_core::{InvalidLimit as Bounds, Span};

use super::error::MAX_LABEL;
use super::parse::is_label;
use super::spec::{Measure, Spec, Value};
use super::unit::{Period, Unit};
use super::words::Word;
use super::{Engine, InvalidLimit, Limit};

type Built = Result<Limit, InvalidLimit>;

impl Limit {
    /// A bucket of `n` tokens that refills `n` every `period`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// assert_eq!(Limit::new(5, Duration::from_secs(10))?.to_string(), "5/10s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn new(n: u64, period: Duration) -> Built {
        if period.is_zero() {
            return Err(Bounds::ZeroPeriod.into());
        }
        match Period::exactly(period) {
            Some(period) => Limit::from_spec(Spec::new(n, Measure::Rate(period))),
            None => Err(InvalidLimit::PeriodTooFine(period)),
        }
    }

    fn per(n: u64, unit: Unit) -> Built {
        Limit::from_spec(Spec::new(n, Measure::Rate(Period { count: 1, unit })))
    }

    /// `n` tokens every second: `n/s`.
    pub fn per_second(n: u64) -> Built {
        Limit::per(n, Unit::Second)
    }

    /// `n` tokens every minute: `n/min`.
    pub fn per_minute(n: u64) -> Built {
        Limit::per(n, Unit::Minute)
    }

    /// `n` tokens every hour: `n/h`.
    pub fn per_hour(n: u64) -> Built {
        Limit::per(n, Unit::Hour)
    }

    /// `n` tokens every 24 hours: `n/day`. For real days, see [`calendar`](Limit::calendar).
    pub fn per_day(n: u64) -> Built {
        Limit::per(n, Unit::Day)
    }

    /// `n` tokens every 7 days: `n/week`.
    pub fn per_week(n: u64) -> Built {
        Limit::per(n, Unit::Week)
    }

    /// `n` tokens every 30 days: `n/month`. For real months, see [`calendar`](Limit::calendar).
    pub fn per_month(n: u64) -> Built {
        Limit::per(n, Unit::Month)
    }

    /// `n` tokens every 365 days: `n/year`.
    pub fn per_year(n: u64) -> Built {
        Limit::per(n, Unit::Year)
    }

    /// `n` at a time: `n concurrent`.
    pub fn concurrent(n: u64) -> Built {
        Limit::from_spec(Spec::new(n, Measure::Concurrent))
    }

    /// Between `min` and `max` at a time, as the callee bears: `adaptive min..max concurrent`.
    pub fn adaptive(min: u64, max: u64) -> Built {
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

    /// Says what is counted: the `tokens` of `200k tokens/min`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(200_000)?.label("tokens")?.to_string(), "200k tokens/min");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn label(mut self, label: &str) -> Built {
        if !is_label(label) {
            return Err(InvalidLimit::Label(label.chars().take(MAX_LABEL).collect()));
        }
        if !matches!(self.spec.measure, Measure::Rate(_)) {
            let with = self.spec.algorithm()?.as_str();
            return Err(InvalidLimit::Misfit { option: "label", with });
        }
        self.spec.label = Some(label.into());
        Ok(self)
    }

    fn with(mut self, word: Word, value: Value) -> Built {
        self.spec.set(word, value);
        Limit::from_spec(self.spec)
    }

    /// Holds up to `tokens`, so that as many pass at once: `burst tokens`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.burst(20)?.to_string(), "10/s burst 20");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn burst(self, tokens: u64) -> Built {
        self.with(Word::Burst, Value::Number(tokens))
    }

    /// Starts a new key with `tokens` instead of a full bucket; set the burst first.
    pub fn initial(self, tokens: u64) -> Built {
        self.with(Word::Initial, Value::Number(tokens))
    }

    /// Gives all tokens of a period back together, at its end: `interval`.
    pub fn interval(self) -> Built {
        self.with(Word::Interval, Value::Nothing)
    }

    /// Lets any cost pass while nothing is owed; the next request waits for it: `pay_later`.
    pub fn pay_later(self) -> Built {
        self.with(Word::PayLater, Value::Nothing)
    }

    /// Shapes: takes in a burst, lets `free` of it go on at once and holds the rest back to the
    /// rate. `leaky`, with `free` if it is not 1.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit = Limit::per_second(20)?.burst(50)?.leaky(5)?;
    /// assert_eq!(limit.to_string(), "20/s leaky free 5 burst 50");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn leaky(mut self, free: u64) -> Built {
        self.spec.set(Word::Leaky, Value::Nothing);
        self.with(Word::Free, Value::Number(free))
    }

    /// The token bucket under another name: `gcra`.
    pub fn gcra(self) -> Built {
        self.with(Word::Gcra, Value::Nothing)
    }

    /// Fixed windows, aligned to the Unix epoch: `fixed`.
    pub fn fixed(self) -> Built {
        self.with(Word::Fixed, Value::Nothing)
    }

    /// Fixed windows, each opened by the first request after the last: `fixed first_hit`.
    pub fn first_hit(self) -> Built {
        self.with(Word::FirstHit, Value::Nothing)
    }

    /// Fixed windows that are the days, weeks, months or years of the time zone of that IANA
    /// name: `calendar zone NAME`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// let limit = Limit::per_month(1000)?.calendar("Europe/Berlin")?.anchor_day(15)?;
    /// assert_eq!(limit.to_string(), "1k/month calendar zone Europe/Berlin anchor 15");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn calendar(mut self, zone: &str) -> Built {
        self.spec.set(Word::Calendar, Value::Nothing);
        self.with(Word::Zone, Value::Zone(zone.into()))
    }

    /// Begins calendar months on that day (in shorter months on their last), calendar weeks on
    /// that day, 1 being Monday: `anchor day`.
    pub fn anchor_day(self, day: u64) -> Built {
        self.with(Word::Anchor, Value::Number(day))
    }

    /// A sliding window, estimated from two counters: `sliding`.
    pub fn sliding(self) -> Built {
        self.with(Word::Sliding, Value::Nothing)
    }

    /// A sliding window, cut into `n` equal slots: `sliding slots n`.
    pub fn slots(self, n: u32) -> Built {
        self.with(Word::Slots, Value::Number(n.into()))
    }

    /// A sliding window that remembers every request, so exact: `log`.
    pub fn log(self) -> Built {
        self.with(Word::Log, Value::Nothing)
    }

    /// Keeps requests at least `gap` apart as well: `log min_gap D`.
    pub fn min_gap(self, gap: Duration) -> Built {
        self.with(Word::MinGap, Value::Span(gap.into()))
    }

    /// Counts refused requests too, so that hammering never pays; for windows and logs:
    /// `count_denied`.
    pub fn count_denied(self) -> Built {
        self.with(Word::CountDenied, Value::Nothing)
    }

    /// Starts slowly after idling, and takes `warm_up` to reach the rate: `warmup D`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// let limit = Limit::per_second(10)?.warm_up(Duration::from_secs(3))?;
    /// assert_eq!(limit.to_string(), "10/s warmup 3s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn warm_up(self, warm_up: Duration) -> Built {
        self.with(Word::WarmUp, Value::Span(warm_up.into()))
    }

    /// Gives up a holder that was not heard of for `lease`; 60 seconds unless told otherwise:
    /// `100 concurrent lease D`.
    pub fn lease(self, lease: Duration) -> Built {
        self.with(Word::Lease, Value::Span(lease.into()))
    }
}
