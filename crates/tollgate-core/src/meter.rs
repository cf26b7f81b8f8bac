//! The meter: token bucket, leaky bucket and GCRA in one.
//!
//! A token bucket counts what is left, a leaky bucket what is in it, and GCRA remembers the
//! *theoretical arrival time*: the moment at which everything spent so far will have been
//! refilled. They are one algorithm. We keep the arrival time, because it is one number, needs
//! no refill step, and tells by itself when the key is as good as new.
//!
//! Shaping (a leaky bucket used as a queue) is the same state, read for a delay. Refilling in
//! whole intervals is the same arithmetic at a clock that only ticks on the interval's bounds.

mod carry;
mod parts;
mod plain;

pub use parts::MeterParts;
pub use plain::PlainMeter;

use crate::exact::Exact;
use crate::{Algorithm, InvalidLimit, MAX_AMOUNT, MAX_FILL, Span, Standing, Time};

/// How tokens come back.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Refill, Span, Time};
/// let at = |secs| Time::EPOCH + Span::from_secs(secs);
/// let greedy = Meter::new(60, Span::from_secs(60), 60)?;
/// let interval = greedy.refill(Refill::Interval { phase: Time::EPOCH });
/// for (meter, after_half_a_minute) in [(greedy, 30), (interval, 0)] {
///     let mut state = meter.fresh(at(0));
///     meter.charge(&mut state, at(0), 60);
///     assert_eq!(meter.peek(&state, at(30)).remaining, after_half_a_minute);
///     assert_eq!(meter.peek(&state, at(60)).remaining, 60);
/// }
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Refill {
    /// Continuously, each token as soon as its time has come.
    #[default]
    Greedy,
    /// All tokens of a period together, at its bounds: whole periods counted from `phase`.
    Interval {
        /// An instant at which a period begins.
        phase: Time,
    },
}

/// A token bucket of `burst` tokens, refilled by `rate` tokens every `period`.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Span, Time};
///
/// let meter = Meter::new(10, Span::from_secs(1), 10)?;
/// let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
/// let mut state = meter.fresh(at(0));
/// assert_eq!(meter.decide(&mut state, at(300), 6).remaining, 4);
/// assert_eq!(meter.decide(&mut state, at(500), 5).remaining, 1); // 4 + 2 refilled - 5
/// assert_eq!(meter.peek(&state, at(1500)).remaining, 10);
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meter {
    plain: PlainMeter,
    /// The period as given, for interval refill.
    interval: u64,
    /// Shaping: how far it may run ahead before requests are held back.
    smooth: Option<Exact>,
    /// What a new key already owes.
    owed_at_start: Exact,
    /// Interval refill: what, added to a time, makes every refill fall on a multiple of `interval`.
    tick_offset: Option<u64>,
    pays_later: bool,
}

/// The theoretical arrival time: when everything spent will have come back.
///
/// ```
/// use tollgate_core::{Algorithm, Meter, Span, Time};
/// let meter = Meter::new(3, Span::from_nanos(10), 9)?; // one takes 3⅓ ns
/// let mut state = meter.fresh(Time::from_nanos(7));
/// meter.charge(&mut state, Time::from_nanos(7), 1);
/// assert_eq!(state.parts(), (10, 1));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeterState(pub(crate) Exact);

impl MeterState {
    /// The state of `nanos` since the Unix epoch and `frac` parts of the nanosecond after it,
    /// fewer than the meter's [`scale`](Meter::scale). The state of another meter is
    /// [carried over](Meter::carry) instead.
    pub const fn from_parts(nanos: u64, frac: u64) -> MeterState {
        MeterState(Exact { ns: nanos, frac })
    }

    /// Whole nanoseconds since the Unix epoch, and parts of the next one (each `1 / scale`). A
    /// meter that refills in intervals keeps a clock of its own, less than an interval ahead.
    pub const fn parts(self) -> (u64, u64) {
        (self.0.ns, self.0.frac)
    }
}

impl Meter {
    /// A meter that holds `burst` tokens and refills `rate` of them every `period`.
    pub fn new(rate: u64, period: Span, burst: u64) -> Result<Meter, InvalidLimit> {
        if burst == 0 {
            return Err(InvalidLimit::ZeroBurst);
        }
        let mut meter = Meter::deep(rate, period, Span::ZERO)?;
        if burst > MAX_AMOUNT {
            return Err(InvalidLimit::AmountTooLarge(burst));
        }
        meter.plain.burst = burst;
        meter.plain.depth = meter.plain.time_of(burst);
        if meter.plain.depth > Exact::whole(MAX_FILL.as_nanos()) {
            return Err(InvalidLimit::FillsTooSlowly);
        }
        Ok(meter)
    }

    /// A meter whose bucket is given as a length of time: it holds what `depth` refills, which
    /// need not be a whole number of tokens.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span};
    /// let meter = Meter::deep(10, Span::from_secs(1), Span::from_millis(450))?;
    /// assert_eq!(meter.capacity(), 4); // and a half, which is of use only to what is owed
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn deep(rate: u64, period: Span, depth: Span) -> Result<Meter, InvalidLimit> {
        let interval = period.as_nanos();
        match rate {
            0 => return Err(InvalidLimit::ZeroAmount),
            _ if rate > MAX_AMOUNT => return Err(InvalidLimit::AmountTooLarge(rate)),
            _ if interval == 0 => return Err(InvalidLimit::ZeroPeriod),
            _ if period > MAX_FILL => return Err(InvalidLimit::PeriodTooLong),
            _ if depth > MAX_FILL => return Err(InvalidLimit::FillsTooSlowly),
            _ => {}
        }
        let divisor = gcd(rate, interval);
        let (rate, period) = (rate / divisor, interval / divisor);
        let burst = Exact::whole(depth.as_nanos()).units(rate) / u128::from(period);
        if burst > u128::from(MAX_AMOUNT) {
            return Err(InvalidLimit::AmountTooLarge(u64::try_from(burst).unwrap_or(u64::MAX)));
        }
        let (burst, token) = (burst as u64, Exact::of(1, period, rate));
        let depth = Exact::whole(depth.as_nanos());
        Ok(Meter {
            plain: PlainMeter { rate, period, burst, token, depth },
            interval,
            smooth: None,
            owed_at_start: Exact::default(),
            tick_offset: None,
            pays_later: false,
        })
    }

    /// Starts new keys with `tokens` instead of a full bucket.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(1, Span::from_secs(1), 10)?.initial(2)?;
    /// assert_eq!(meter.peek(&meter.fresh(Time::EPOCH), Time::EPOCH).remaining, 2);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn initial(mut self, tokens: u64) -> Result<Meter, InvalidLimit> {
        if tokens > self.plain.burst {
            return Err(InvalidLimit::InitialAboveBurst {
                initial: tokens,
                burst: self.plain.burst,
            });
        }
        self.owed_at_start = self.plain.depth.minus(self.plain.time_of(tokens), self.plain.rate);
        Ok(self)
    }

    /// Chooses how tokens come back.
    pub fn refill(mut self, refill: Refill) -> Meter {
        self.tick_offset = match refill {
            Refill::Greedy => None,
            Refill::Interval { phase } => {
                Some((self.interval - phase.as_nanos() % self.interval) % self.interval)
            }
        };
        self
    }

    /// Shapes: of a burst, `tokens` go on at once, the rest are held back to the rate.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span, Time};
    /// let meter = Meter::new(10, Span::from_secs(1), 5)?.smooth_after(2);
    /// let mut state = meter.fresh(Time::EPOCH);
    /// let waits = [(); 4].map(|()| meter.decide(&mut state, Time::EPOCH, 1).wait);
    /// assert_eq!(waits, [0, 0, 100, 200].map(Span::from_millis));
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn smooth_after(mut self, tokens: u64) -> Meter {
        self.smooth = Some(self.plain.time_of(tokens));
        self
    }

    /// Lets any request pass while nothing is owed; the next one waits for it.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Retry, Span, Time};
    /// let meter = Meter::new(10, Span::from_secs(1), 1)?.pay_later();
    /// let mut state = meter.fresh(Time::EPOCH);
    /// assert!(meter.decide(&mut state, Time::EPOCH, 1_000).allowed);
    /// let next = meter.decide(&mut state, Time::EPOCH, 1);
    /// assert!(matches!(next.retry, Retry::After(_)));
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn pay_later(mut self) -> Meter {
        self.pays_later = true;
        self
    }

    /// Whether a key whose arrival time has passed is no different from a new one: it refills
    /// continuously and starts full.
    #[inline]
    pub fn is_full_on_arrival(&self) -> bool {
        self.tick_offset.is_none() && self.owed_at_start == Exact::default()
    }

    /// What is left of a meter that refills continuously, starts full, holds nothing back and
    /// borrows nothing: the everyday one.
    #[inline]
    pub fn as_plain(&self) -> Option<&PlainMeter> {
        let plain = self.is_full_on_arrival() && self.smooth.is_none() && !self.pays_later;
        plain.then_some(&self.plain)
    }

    /// Into how many parts a nanosecond is divided in the states of this meter.
    #[inline]
    pub fn scale(&self) -> u64 {
        self.plain.rate
    }

    /// How long refilling from empty takes.
    pub fn fill_time(&self) -> Span {
        Span::from_nanos(self.plain.depth.ceil())
    }

    /// The last moment at which tokens came back, on the clock the states of this meter keep.
    #[inline(always)]
    fn refilled_at(&self, now: Time) -> u64 {
        match self.tick_offset {
            None => now.as_nanos(),
            Some(offset) => {
                let ticked = now.as_nanos().saturating_add(offset);
                ticked - ticked % self.interval
            }
        }
    }

    /// The first moment at which everything due by `moment`, on the clock of the states, is back.
    #[inline(always)]
    fn refilled_by(&self, moment: Exact) -> Time {
        Time::from_nanos(match self.tick_offset {
            None => moment.ceil(),
            Some(offset) => match moment.ceil().checked_next_multiple_of(self.interval) {
                Some(tick) => tick.saturating_sub(offset),
                None => u64::MAX,
            },
        })
    }

    /// What is owed at `now`, as time.
    #[inline(always)]
    fn debt(&self, state: &MeterState, now: Time) -> Exact {
        state.0.minus(Exact::whole(self.refilled_at(now)), self.plain.rate)
    }

    /// Whole tokens that fit into `time`.
    #[inline(always)]
    fn tokens_in(&self, time: Exact) -> u64 {
        // Both products fit 64 bits for any everyday rate, and a 64-bit division is far cheaper.
        if let Some(units) =
            time.ns.checked_mul(self.plain.rate).and_then(|u| u.checked_add(time.frac))
        {
            return units / self.plain.period;
        }
        (time.units(self.plain.rate) / u128::from(self.plain.period)) as u64
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Algorithm for Meter {
    type State = MeterState;

    #[inline]
    fn fresh(&self, now: Time) -> MeterState {
        let since = Exact::whole(self.refilled_at(now));
        MeterState(since.plus(self.owed_at_start, self.plain.rate))
    }

    #[inline(always)]
    fn charge(&self, state: &mut MeterState, now: Time, cost: i64) {
        let (since, tokens) = (self.refilled_at(now), cost.unsigned_abs());
        state.0 = match cost >= 0 {
            true => self.plain.spent(state.0, since, tokens),
            false => self.plain.given_back(state.0, since, tokens),
        };
    }

    #[inline(always)]
    fn judge(&self, state: &MeterState, now: Time) -> Standing {
        let until = |moment| self.refilled_by(moment).since(now);
        let debt = self.debt(state, now);
        Standing {
            overdrawn: match self.plain.conforms(state.0, self.refilled_at(now)) {
                true => Span::ZERO,
                false => until(state.0.minus(self.plain.depth, self.plain.rate)),
            },
            delay: match self.smooth {
                Some(smooth) if debt > smooth => until(state.0.minus(smooth, self.plain.rate)),
                _ => Span::ZERO,
            },
            remaining: self.tokens_in(self.plain.depth.minus(debt, self.plain.rate)),
            reset_after: until(state.0),
        }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.plain.burst
    }

    fn used(&self, state: &MeterState, now: Time) -> u64 {
        let units = self.debt(state, now).units(self.plain.rate);
        u64::try_from(units.div_ceil(u128::from(self.plain.period))).unwrap_or(u64::MAX)
    }

    fn full_at(&self, state: &MeterState) -> Time {
        self.refilled_by(state.0)
    }

    #[inline]
    fn pays_later(&self) -> bool {
        self.pays_later
    }
}

#[cfg(test)]
mod tests;
