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

use crate::exact::Exact;
use crate::{Algorithm, InvalidLimit, MAX_AMOUNT, MAX_FILL, Span, Standing, Time};

/// How tokens come back.
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
    /// Tokens per `period`, reduced by their common divisor.
    rate: u64,
    /// Nanoseconds in which `rate` tokens come back.
    period: u64,
    /// The period as given, for interval refill.
    interval: u64,
    burst: u64,
    /// How long one token takes.
    token: Exact,
    /// How far the arrival time may run ahead of now: the time `burst` tokens take.
    depth: Exact,
    /// Shaping: how far it may run ahead before requests are held back.
    smooth: Option<Exact>,
    /// What a new key already owes.
    owed_at_start: Exact,
    /// Interval refill: what, added to a time, makes every refill fall on a multiple of `interval`.
    tick_offset: Option<u64>,
    pays_later: bool,
}

/// The theoretical arrival time: when everything spent will have come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MeterState(pub(crate) Exact);

impl MeterState {
    /// The state of `nanos` since the Unix epoch and `frac` parts of the nanosecond after it.
    pub const fn from_parts(nanos: u64, frac: u64) -> MeterState {
        MeterState(Exact { ns: nanos, frac })
    }

    /// Whole nanoseconds since the Unix epoch, and parts of the next one (each `1 / scale`).
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
        meter.burst = burst;
        meter.depth = meter.time_of(burst);
        if meter.depth > Exact::whole(MAX_FILL.as_nanos()) {
            return Err(InvalidLimit::FillsTooSlowly);
        }
        Ok(meter)
    }

    /// A meter whose bucket is given as a length of time: it holds what `depth` refills, which
    /// need not be a whole number of tokens.
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
        Ok(Meter {
            rate,
            period,
            interval,
            burst: burst as u64,
            token: Exact::of(1, period, rate),
            depth: Exact::whole(depth.as_nanos()),
            smooth: None,
            owed_at_start: Exact::default(),
            tick_offset: None,
            pays_later: false,
        })
    }

    /// Starts new keys with `tokens` instead of a full bucket.
    pub fn initial(mut self, tokens: u64) -> Result<Meter, InvalidLimit> {
        if tokens > self.burst {
            return Err(InvalidLimit::InitialAboveBurst { initial: tokens, burst: self.burst });
        }
        self.owed_at_start = self.depth.minus(self.time_of(tokens), self.rate);
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
    pub fn smooth_after(mut self, tokens: u64) -> Meter {
        self.smooth = Some(self.time_of(tokens));
        self
    }

    /// Lets any request pass while nothing is owed; the next one waits for it.
    pub fn pay_later(mut self) -> Meter {
        self.pays_later = true;
        self
    }

    /// Whether it refills continuously and starts full, so that a key whose arrival time has
    /// passed is no different from a new one.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.tick_offset.is_none() && self.owed_at_start == Exact::default()
    }

    /// Into how many parts a nanosecond is divided in the states of this meter.
    #[inline]
    pub fn scale(&self) -> u64 {
        self.rate
    }

    /// How long refilling from empty takes.
    pub fn fill_time(&self) -> Span {
        Span::from_nanos(self.depth.ceil())
    }

    #[inline(always)]
    fn time_of(&self, tokens: u64) -> Exact {
        if tokens == 1 { self.token } else { Exact::of(tokens, self.period, self.rate) }
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
        state.0.minus(Exact::whole(self.refilled_at(now)), self.rate)
    }

    /// Whole tokens that fit into `time`.
    #[inline(always)]
    fn tokens_in(&self, time: Exact) -> u64 {
        // Both products fit 64 bits for any everyday rate, and a 64-bit division is far cheaper.
        if let Some(units) = time.ns.checked_mul(self.rate).and_then(|u| u.checked_add(time.frac)) {
            return units / self.period;
        }
        (time.units(self.rate) / u128::from(self.period)) as u64
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
        MeterState(since.plus(self.owed_at_start, self.rate))
    }

    #[inline(always)]
    fn charge(&self, state: &mut MeterState, now: Time, cost: i64) {
        let since = state.0.max(Exact::whole(self.refilled_at(now)));
        state.0 = if cost >= 0 {
            since.plus(self.time_of(cost.unsigned_abs()), self.rate)
        } else {
            since.minus(self.time_of(cost.unsigned_abs()), self.rate)
        };
    }

    #[inline(always)]
    fn judge(&self, state: &MeterState, now: Time) -> Standing {
        let until = |moment| self.refilled_by(moment).since(now);
        let debt = self.debt(state, now);
        Standing {
            overdrawn: match debt > self.depth {
                true => until(state.0.minus(self.depth, self.rate)),
                false => Span::ZERO,
            },
            delay: match self.smooth {
                Some(smooth) if debt > smooth => until(state.0.minus(smooth, self.rate)),
                _ => Span::ZERO,
            },
            remaining: self.tokens_in(self.depth.minus(debt, self.rate)),
            reset_after: until(state.0),
        }
    }

    #[inline]
    fn capacity(&self) -> u64 {
        self.burst
    }

    fn used(&self, state: &MeterState, now: Time) -> u64 {
        let units = self.debt(state, now).units(self.rate);
        u64::try_from(units.div_ceil(u128::from(self.period))).unwrap_or(u64::MAX)
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
