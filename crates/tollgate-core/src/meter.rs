//! The meter: token bucket, leaky bucket and GCRA in one.
//!
//! A token bucket counts what is left, a leaky bucket what is in it, and GCRA stores the
//! *theoretical arrival time*: the moment at which everything spent so far will have been
//! refilled. They are one algorithm. The state here is the arrival time, because it is one number,
//! needs no refill step, and is itself the time at which the key is full again.
//!
//! Shaping (a leaky bucket used as a queue) reads a delay from the same state. Refilling in whole
//! intervals is the same arithmetic with a clock that only ticks on the interval's bounds.

mod carry;
mod parts;
mod plain;

pub use parts::MeterParts;
pub use plain::PlainMeter;

use crate::exact_nanos::ExactNanos;
use crate::{Algorithm, InvalidLimit, Judgement, MAX_AMOUNT, MAX_FILL, Span, Time};

/// How a meter refills tokens.
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
    /// Refills continuously, each token as soon as it is due.
    #[default]
    Greedy,
    /// Refills all tokens of a period together, at bounds that are whole periods from `phase`.
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
    /// Shaping: how far the arrival time may run ahead before requests are delayed.
    smooth: Option<ExactNanos>,
    /// The debt of a new key.
    owed_at_start: ExactNanos,
    /// Interval refill: the offset that, added to a time, aligns refills to multiples of `interval`.
    tick_offset: Option<u64>,
    pays_later: bool,
}

/// The theoretical arrival time: when everything spent will be refilled.
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
pub struct MeterState(pub(crate) ExactNanos);

impl MeterState {
    /// Creates the state of `nanos` since the Unix epoch and `frac` parts of the next nanosecond.
    ///
    /// The parts are fewer than the meter's [`scale`](Meter::scale). The state of another meter is
    /// [carried over](Meter::carry) instead.
    pub const fn from_parts(nanos: u64, frac: u64) -> MeterState {
        MeterState(ExactNanos { ns: nanos, frac })
    }

    /// Returns whole nanoseconds since the Unix epoch, and parts of the next one (each `1 / scale`).
    ///
    /// A meter that refills in intervals uses a clock of its own, less than an interval ahead.
    pub const fn parts(self) -> (u64, u64) {
        (self.0.ns, self.0.frac)
    }
}

impl Meter {
    /// Creates a meter that holds `burst` tokens and refills `rate` of them every `period`.
    pub fn new(rate: u64, period: Span, burst: u64) -> Result<Meter, InvalidLimit> {
        if burst == 0 {
            return Err(InvalidLimit::ZeroBurst);
        }
        let mut meter = Meter::with_depth(rate, period, Span::ZERO)?;
        if burst > MAX_AMOUNT {
            return Err(InvalidLimit::AmountTooLarge(burst));
        }
        meter.plain.burst = burst;
        meter.plain.depth = meter.plain.time_of(burst);
        if meter.plain.depth > ExactNanos::whole(MAX_FILL.as_nanos()) {
            return Err(InvalidLimit::FillsTooSlowly);
        }
        Ok(meter)
    }

    /// Creates a meter whose bucket holds what `depth` refills.
    ///
    /// The bucket need not hold a whole number of tokens.
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Meter, Span};
    /// let meter = Meter::with_depth(10, Span::from_secs(1), Span::from_millis(450))?;
    /// assert_eq!(meter.capacity(), 4); // and a half, which only a debt can use
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub fn with_depth(rate: u64, period: Span, depth: Span) -> Result<Meter, InvalidLimit> {
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
        let burst = ExactNanos::whole(depth.as_nanos()).units(rate) / u128::from(period);
        if burst > u128::from(MAX_AMOUNT) {
            return Err(InvalidLimit::AmountTooLarge(u64::try_from(burst).unwrap_or(u64::MAX)));
        }
        let (burst, token) = (burst as u64, ExactNanos::from_amount(1, period, rate));
        let depth = ExactNanos::whole(depth.as_nanos());
        Ok(Meter {
            plain: PlainMeter { rate, period, burst, token, depth },
            interval,
            smooth: None,
            owed_at_start: ExactNanos::default(),
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

    /// Sets how tokens are refilled; continuously by default.
    pub fn refill(mut self, refill: Refill) -> Meter {
        self.tick_offset = match refill {
            Refill::Greedy => None,
            Refill::Interval { phase } => {
                Some((self.interval - phase.as_nanos() % self.interval) % self.interval)
            }
        };
        self
    }

    /// Shapes bursts: `tokens` pass at once, and the rest are delayed to the rate.
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

    /// Lets a request of any cost pass while there is no debt; the next one waits.
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

    /// Returns whether a key whose arrival time has passed equals a new one.
    ///
    /// This holds for a meter that refills continuously and starts full.
    #[inline]
    pub fn is_full_on_arrival(&self) -> bool {
        self.tick_offset.is_none() && self.owed_at_start == ExactNanos::default()
    }

    /// Returns the plain meter, if this one uses none of the options.
    ///
    /// A plain meter refills continuously, starts full, and neither shapes nor pays later.
    #[inline]
    pub fn as_plain(&self) -> Option<&PlainMeter> {
        let plain = self.is_full_on_arrival() && self.smooth.is_none() && !self.pays_later;
        plain.then_some(&self.plain)
    }

    /// Returns the number of parts of a nanosecond in the states of this meter.
    #[inline]
    pub fn scale(&self) -> u64 {
        self.plain.rate
    }

    /// Returns the time it takes to refill from empty.
    pub fn fill_time(&self) -> Span {
        Span::from_nanos(self.plain.depth.ceil())
    }

    /// Returns the time of the last refill, on the clock of the states.
    #[inline(always)]
    pub(crate) fn refilled_at(&self, now: Time) -> u64 {
        match self.tick_offset {
            None => now.as_nanos(),
            Some(offset) => {
                let ticked = now.as_nanos().saturating_add(offset);
                ticked - ticked % self.interval
            }
        }
    }

    /// Returns the time at which everything due by `moment` is refilled; `moment` is on the states'
    /// clock.
    #[inline(always)]
    fn refilled_by(&self, moment: ExactNanos) -> Time {
        Time::from_nanos(match self.tick_offset {
            None => moment.ceil(),
            Some(offset) => match moment.ceil().checked_next_multiple_of(self.interval) {
                Some(tick) => tick.saturating_sub(offset),
                None => u64::MAX,
            },
        })
    }

    /// Returns the debt at `now`, as time.
    #[inline(always)]
    fn debt(&self, state: &MeterState, now: Time) -> ExactNanos {
        state.0.minus(ExactNanos::whole(self.refilled_at(now)), self.plain.rate)
    }

    /// Returns the whole tokens that fit into `time`.
    #[inline(always)]
    fn tokens_in(&self, time: ExactNanos) -> u64 {
        // For a usual rate everything fits 64 bits, and a 64-bit division is far cheaper.
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
        let since = ExactNanos::whole(self.refilled_at(now));
        MeterState(since.plus(self.owed_at_start, self.plain.rate))
    }

    #[inline(always)]
    fn charge(&self, state: &mut MeterState, now: Time, cost: i64) {
        let (since, tokens) = (self.refilled_at(now), cost.unsigned_abs());
        state.0 = match cost >= 0 {
            true => self.plain.spent(state.0, since, tokens),
            false => self.plain.refunded(state.0, since, tokens),
        };
    }

    #[inline(always)]
    fn judge(&self, state: &MeterState, now: Time) -> Judgement {
        let until = |moment| self.refilled_by(moment).since(now);
        let debt = self.debt(state, now);
        Judgement {
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
