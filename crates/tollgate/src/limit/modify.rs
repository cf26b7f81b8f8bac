//! Limits put together by a program: what to add. Each step is checked at once, and none can
//! follow that contradicts an earlier one; repeating a step replaces it.

use std::time::Duration;

use super::error::MAX_LABEL;
use super::parse::is_label;
use super::spec::{Measure, Value};
use super::words::Word;
use super::{InvalidLimit, Limit, Steering};

impl Limit {
    /// Says what is counted: the `tokens` of `200k tokens/min`.
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
            return Err(InvalidLimit::Misfit { option: "label", with });
        }
        self.spec.label = Some(label.into());
        Ok(self)
    }

    fn with(mut self, word: Word, value: Value) -> Result<Limit, InvalidLimit> {
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
    pub fn burst(self, tokens: u64) -> Result<Limit, InvalidLimit> {
        self.with(Word::Burst, Value::Number(tokens))
    }

    /// Starts a new key with `tokens` instead of a full bucket; set the burst first.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.initial(0)?.to_string(), "10/s initial 0");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn initial(self, tokens: u64) -> Result<Limit, InvalidLimit> {
        self.with(Word::Initial, Value::Number(tokens))
    }

    /// Gives all tokens of a period back together, at its end: `interval`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_minute(60)?.interval()?.to_string(), "60/min interval");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn interval(self) -> Result<Limit, InvalidLimit> {
        self.with(Word::Interval, Value::Nothing)
    }

    /// Lets any cost pass while nothing is owed; the next request waits for it: `pay_later`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.pay_later()?.to_string(), "10/s pay_later");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn pay_later(self) -> Result<Limit, InvalidLimit> {
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
    pub fn leaky(mut self, free: u64) -> Result<Limit, InvalidLimit> {
        self.spec.set(Word::Leaky, Value::Nothing);
        self.with(Word::Free, Value::Number(free))
    }

    /// The token bucket under another name: `gcra`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_second(10)?.gcra()?.to_string(), "10/s gcra");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn gcra(self) -> Result<Limit, InvalidLimit> {
        self.with(Word::Gcra, Value::Nothing)
    }

    /// Fixed windows, aligned to the Unix epoch: `fixed`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(100)?.fixed()?.to_string(), "100/h fixed");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn fixed(self) -> Result<Limit, InvalidLimit> {
        self.with(Word::Fixed, Value::Nothing)
    }

    /// Fixed windows, each opened by the first request after the last: `fixed first_hit`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(100)?.first_hit()?.to_string(), "100/h fixed first_hit");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn first_hit(self) -> Result<Limit, InvalidLimit> {
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
    pub fn calendar(mut self, zone: &str) -> Result<Limit, InvalidLimit> {
        self.spec.set(Word::Calendar, Value::Nothing);
        self.with(Word::Zone, Value::Zone(zone.into()))
    }

    /// Begins calendar months on that day (in shorter months on their last), calendar weeks on
    /// that day, 1 being Monday: `anchor day`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_week(100)?.anchor_day(7)?.to_string(), "100/week calendar anchor 7");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn anchor_day(self, day: u64) -> Result<Limit, InvalidLimit> {
        self.with(Word::Anchor, Value::Number(day))
    }

    /// A sliding window, estimated from two counters: `sliding`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.sliding()?.to_string(), "500/h sliding");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn sliding(self) -> Result<Limit, InvalidLimit> {
        self.with(Word::Sliding, Value::Nothing)
    }

    /// A sliding window, cut into `n` equal slots: `sliding slots n`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.slots(60)?.to_string(), "500/h sliding slots 60");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn slots(self, n: u32) -> Result<Limit, InvalidLimit> {
        self.with(Word::Slots, Value::Number(n.into()))
    }

    /// A sliding window that remembers every request, so exact: `log`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.log()?.to_string(), "500/h log");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn log(self) -> Result<Limit, InvalidLimit> {
        self.with(Word::Log, Value::Nothing)
    }

    /// Keeps requests at least `gap` apart as well: `log min_gap D`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// let limit = Limit::per_hour(500)?.min_gap(Duration::from_millis(100))?;
    /// assert_eq!(limit.to_string(), "500/h log min_gap 100ms");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn min_gap(self, gap: Duration) -> Result<Limit, InvalidLimit> {
        self.with(Word::MinGap, Value::Span(gap.into()))
    }

    /// Counts refused requests too, so that hammering never pays; for windows and logs:
    /// `count_denied`.
    ///
    /// ```
    /// use tollgate::Limit;
    /// assert_eq!(Limit::per_hour(500)?.log()?.count_denied()?.to_string(), "500/h log count_denied");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn count_denied(self) -> Result<Limit, InvalidLimit> {
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
    pub fn warm_up(self, warm_up: Duration) -> Result<Limit, InvalidLimit> {
        self.with(Word::WarmUp, Value::Span(warm_up.into()))
    }

    /// Gives up a holder that was not heard of for `lease`; 60 seconds unless told otherwise:
    /// `100 concurrent lease D`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    /// let limit = Limit::concurrent(100)?.lease(Duration::from_secs(10))?;
    /// assert_eq!(limit.to_string(), "100 concurrent lease 10s");
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn lease(self, lease: Duration) -> Result<Limit, InvalidLimit> {
        self.with(Word::Lease, Value::Span(lease.into()))
    }

    /// Lets another controller than ours steer an adaptive limit: `aimd`, `vegas`, `gradient2`.
    ///
    /// ```
    /// use tollgate::limit::{Limit, Steering};
    /// let limit = Limit::adaptive(20, 500)?.steered_by(Steering::Aimd)?;
    /// assert_eq!(limit.to_string(), "adaptive 20..500 concurrent aimd");
    /// assert_eq!(limit.steered_by(Steering::Flow)?, Limit::adaptive(20, 500)?);
    /// # Ok::<(), tollgate::limit::InvalidLimit>(())
    /// ```
    pub fn steered_by(mut self, by: Steering) -> Result<Limit, InvalidLimit> {
        for word in [Word::Aimd, Word::Vegas, Word::Gradient2] {
            self.spec.unset(word);
        }
        let word = match by {
            Steering::Flow => return Limit::from_spec(self.spec),
            Steering::Aimd => Word::Aimd,
            Steering::Vegas => Word::Vegas,
            Steering::Gradient2 => Word::Gradient2,
        };
        self.with(word, Value::Nothing)
    }
}
