//! The limiter without keys: one budget for all requests.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Carry, Span, Time, Verdict};

use crate::account::{self, Account, Slots, State};
use crate::atomic_meter::AtomicMeter;
use crate::counters::{self, Counters, OwnedCounters, new_lease};
use crate::denied::combine;
use crate::store::Action;
use crate::sync::{Mutex, MutexGuard};
use crate::{Builder, Clock, Denied, Hold, KeyedLimiter, Limit, Permit, Verdicts};

/// A limiter with one budget, which all clones share.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let mail = Limiter::new("10/s burst 20".parse::<Limit>()?);
/// if let Err(denied) = mail.check() {
///     println!("retry in {:?}", denied.retry_after);
/// }
/// # Ok::<(), tollgate::limit::ParseLimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter(Arc<LimiterState>);

/// The state that all clones of a limiter share.
#[derive(Debug)]
struct LimiterState {
    clock: Clock,
    /// The state, while the limiter is a single plain meter.
    meter: Option<AtomicMeter>,
    /// The states of all other limiters.
    states: Mutex<LimitStates>,
}

/// The limits of a limiter and their states.
#[derive(Debug)]
struct LimitStates {
    limits: SmallVec<[Limit; 2]>,
    states: SmallVec<[State; 2]>,
}

impl Limiter {
    /// Creates a limiter with one limit.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new(Limit::per_second(10)?);
    /// let clone = limiter.clone();
    /// limiter.check_n(10)?;
    /// assert!(clone.check().is_err()); // the same budget
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(limit: Limit) -> Limiter {
        Builder::default().limit(limit).build()
    }

    /// Creates a limiter with a budget for each key, under limits that must all allow a request.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// let tpm = Limiter::keyed(["10k/s".parse()?, "200k/min".parse()?]);
    /// assert!(tpm.check_n("acme", 4_096).is_ok());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn keyed(limits: impl IntoIterator<Item = Limit>) -> KeyedLimiter {
        Builder::default().limits(limits).build_keyed()
    }

    /// Returns a builder, to set several limits, the clock, the store or the number of keys.
    ///
    /// ```
    /// use tollgate::{Limiter, testing::ManualClock};
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::builder()
    ///     .limits(["10/s".parse()?, "100/min".parse()?])
    ///     .clock(&clock)
    ///     .build();
    /// assert_eq!(limiter.peek().remaining, 10);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Creates a limiter with any number of limits.
    pub(crate) fn with(limits: SmallVec<[Limit; 2]>, clock: Clock) -> Limiter {
        let now = clock.now();
        let meter = match &limits[..] {
            [limit] => AtomicMeter::new(limit, now),
            _ => None,
        };
        let states = limits.iter().map(|limit| State::fresh(limit, now)).collect();
        let states = Mutex::new(LimitStates { limits, states });
        Limiter(Arc::new(LimiterState { clock, meter, states }))
    }

    /// Charges one, or returns when to retry.
    ///
    /// For a concurrency limit, call [`acquire`](Limiter::acquire) instead: a permit that `check`
    /// takes is released only when its lease expires.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("1/h".parse::<Limit>()?);
    /// assert!(limiter.check().is_ok());
    /// assert!(limiter.check().is_err());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn check(&self) -> Result<(), Denied> {
        self.check_n(1)
    }

    /// Charges `cost`, or nothing.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("10/h".parse::<Limit>()?);
    /// assert!(limiter.check_n(8).is_ok());
    /// assert!(limiter.check_n(8).is_err()); // charges nothing
    /// assert!(limiter.check_n(2).is_ok());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn check_n(&self, cost: u64) -> Result<(), Denied> {
        if let Some(meter) = &self.0.meter
            && let Some(result) = meter.take(self.0.clock.now(), cost)
        {
            return result;
        }
        self.run(Action::Take { max_wait: Span::ZERO }, cost, new_lease()).map(drop)
    }

    /// Returns the state of the limiter, and charges nothing. Of several limits, the tightest
    /// counts.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// let limiter = Limiter::builder().limits(["10/h".parse()?, "50/day".parse()?]).build();
    /// let verdict = limiter.peek();
    /// assert_eq!((verdict.limit, verdict.remaining), (10, 10));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn peek(&self) -> Verdict {
        self.adjust(Action::Peek, 0, 0)
    }

    /// Charges `amount` until the actual cost is known.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let tokens = Limiter::new("10k tokens/day".parse::<Limit>()?);
    /// let hold = tokens.reserve(4_000)?;
    /// assert_eq!(tokens.peek().remaining, 6_000);
    /// hold.settle(1_000);
    /// assert_eq!(tokens.peek().remaining, 9_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, amount: u64) -> Result<Hold, Denied> {
        let lease = new_lease();
        self.run(Action::Take { max_wait: Span::ZERO }, amount, lease)?;
        Ok(Hold::new(OwnedCounters::Direct(self.clone()), amount, lease, Hold::DEFAULT_EXPIRY))
    }

    /// Refunds `amount`, never above full.
    pub fn refund(&self, amount: u64) -> Verdict {
        self.adjust(Action::Refund, amount, 0)
    }

    /// Waits until one is charged.
    ///
    /// Requests proceed in the order in which they began to wait. Dropping the future returns its
    /// queue position.
    ///
    /// ```
    /// # use tollgate::Limiter;
    /// async fn send(mail: &Limiter) {
    ///     mail.wait().await;
    ///     println!("sent");
    /// }
    /// ```
    pub async fn wait(&self) {
        // Every limit allows a cost of one at some time.
        let _ = self.wait_n(1).await;
    }

    /// Waits until `cost` is charged; an error means that the limits can never allow it.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("10/h".parse::<Limit>()?);
    /// assert!(ready(limiter.wait_n(10)).is_ok()); // at once
    /// assert!(ready(limiter.wait_n(11)).is_err()); // the limit never holds eleven
    /// # fn ready<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     match std::pin::pin!(future).poll(&mut context) {
    /// #         std::task::Poll::Ready(output) => output,
    /// #         std::task::Poll::Pending => panic!("it waits"),
    /// #     }
    /// # }
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub async fn wait_n(&self, cost: u64) -> Result<(), Denied> {
        counters::wait(self, cost, Time::MAX).await
    }

    /// Waits up to `timeout` until one is charged.
    ///
    /// A longer wait is refused at once, and nothing is charged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("1/h".parse::<Limit>()?);
    /// assert!(ready(limiter.wait_timeout(Duration::from_secs(1))).is_ok());
    /// assert!(ready(limiter.wait_timeout(Duration::from_secs(1))).is_err()); // too long
    /// # fn ready<T>(future: impl Future<Output = T>) -> T {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     match std::pin::pin!(future).poll(&mut context) {
    /// #         std::task::Poll::Ready(output) => output,
    /// #         std::task::Poll::Pending => panic!("it waits"),
    /// #     }
    /// # }
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<(), Denied> {
        counters::wait(self, 1, self.clock().now() + timeout.into()).await
    }

    /// Blocks the thread until one is charged.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("1k/s burst 1".parse::<Limit>()?);
    /// for _ in 0..3 {
    ///     limiter.blocking_wait(); // the second a millisecond after the first, and so on
    /// }
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn blocking_wait(&self) {
        let _ = counters::blocking_wait(self, 1, Time::MAX);
    }

    /// Blocks the thread up to `timeout` until one is charged; refuses a longer wait at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("1/h".parse::<Limit>()?);
    /// limiter.check()?;
    /// assert!(limiter.blocking_wait_timeout(Duration::from_secs(1)).is_err()); // at once
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking_wait_timeout(&self, timeout: Duration) -> Result<(), Denied> {
        counters::blocking_wait(self, 1, self.clock().now() + timeout.into())
    }

    /// Takes a permit of the concurrency limits, and charges one to the other limits.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("2 concurrent".parse::<Limit>()?);
    /// let permits = [limiter.acquire()?, limiter.acquire()?];
    /// assert!(limiter.acquire().is_err());
    /// drop(permits);
    /// assert!(limiter.acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(&self) -> Result<Permit, Denied> {
        let lease = new_lease();
        self.run(Action::Take { max_wait: Span::ZERO }, 1, lease)?;
        Ok(Permit::new(OwnedCounters::Direct(self.clone()), lease))
    }

    /// Resets the limiter, so that its budget is full.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("5/h".parse::<Limit>()?);
    /// limiter.check_n(5)?;
    /// limiter.reset();
    /// assert_eq!(limiter.peek().remaining, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset(&self) {
        self.adjust(Action::Reset, 0, 0);
    }

    /// Replaces the limits; `carry` sets what becomes of the budget that is left.
    ///
    /// Limits are matched by position.
    ///
    /// ```
    /// use tollgate::{Carry, Limit, Limiter};
    /// let limiter = Limiter::new("10/day".parse::<Limit>()?);
    /// limiter.check_n(5).unwrap();
    /// limiter.change(["100/day".parse()?], Carry::Proportional);
    /// assert_eq!(limiter.peek().remaining, 50);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn change(&self, limits: impl IntoIterator<Item = Limit>, carry: Carry) {
        let limits: SmallVec<[Limit; 2]> = limits.into_iter().collect();
        let mut current = self.states();
        let now = self.0.clock.now();
        let states = limits.iter().enumerate().map(|(i, limit)| {
            let old = current.limits.get(i).zip(current.states.get(i));
            old.map_or_else(
                || State::fresh(limit, now),
                |(old, state)| {
                    let mut account = Account::new(old, state.clone(), 0);
                    account.follow_wall_clock(&self.0.clock, now);
                    account.carry(limit, now, carry);
                    account.state
                },
            )
        });
        let states = states.collect();
        *current = LimitStates { limits, states };
    }

    /// Locks the states. The atomic meter is retired, and its state moves here.
    fn states(&self) -> MutexGuard<'_, LimitStates> {
        let mut current = self.0.states.lock();
        if let Some(state) = self.0.meter.as_ref().and_then(AtomicMeter::retire) {
            current.states[0] = State::Meter(state);
        }
        current
    }
}

impl Counters for Limiter {
    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied> {
        let now = self.0.clock.now();
        if let Some(meter) = &self.0.meter
            && let Some(result) = meter.run(action, cost, now)
        {
            return result;
        }
        let mut current = self.0.states.lock();
        let LimitStates { limits, states } = &mut *current;
        let clock = &self.0.clock;
        let mut slots = LimiterSlots { limits, states, cost, lease, clock };
        let mut verdicts = Verdicts::new();
        let done = account::run_on(&mut slots, action, now, &mut verdicts);
        done.expect("a limiter without keys is never full");
        combine(action, &verdicts, limits)
    }
}

/// The states of a limiter without keys, which are never dropped.
struct LimiterSlots<'a> {
    limits: &'a [Limit],
    states: &'a mut [State],
    cost: u64,
    lease: u64,
    clock: &'a Clock,
}

impl<'a> Slots<'a> for LimiterSlots<'a> {
    fn len(&self) -> usize {
        self.limits.len()
    }

    fn open(&mut self, i: usize, now: Time) -> Account<'a> {
        let state = std::mem::replace(&mut self.states[i], State::Nothing);
        let mut account = Account::new(&self.limits[i], state, self.cost);
        account.lease = self.lease;
        account.follow_wall_clock(self.clock, now);
        account
    }

    fn close(&mut self, i: usize, account: &mut Account<'a>, _verdict: &Verdict, _now: Time) {
        self.states[i] = std::mem::replace(&mut account.state, State::Nothing);
    }

    fn clear(&mut self, i: usize, account: &mut Account<'a>) {
        // After a reset, the account has a fresh state.
        self.states[i] = std::mem::replace(&mut account.state, State::Nothing);
    }
}
