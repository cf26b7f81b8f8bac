//! The limiter without keys: one budget for whoever asks.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tollgate_core::{Carry, Span, Time, Verdict};

use crate::account::{self, Account, Accounts, State};
use crate::counters::{self, Counters, OwnedCounters, new_lease};
use crate::denied::answer;
use crate::hold::DEFAULT_HOLD;
use crate::store::Action;
use crate::sync::{Mutex, MutexGuard};
use crate::word::Word;
use crate::{Builder, Clock, Denied, Hold, KeyedLimiter, Limit, Permit};

/// One budget, shared by all clones.
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
pub struct Limiter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// A single plain meter is one atomic word.
    word: Option<Word>,
    books: Mutex<Books>,
}

/// Limits and their states, for everything that is not one plain meter.
#[derive(Debug)]
struct Books {
    limits: SmallVec<[Limit; 2]>,
    states: SmallVec<[State; 2]>,
}

impl Limiter {
    /// A limiter with one limit.
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

    /// A limiter with a budget for each key, under one or several limits that all must allow.
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

    /// A limiter that decides requests by rules.
    ///
    /// ```no_run
    /// use tollgate::{Limiter, Request, Rules};
    /// let limiter = Limiter::from_rules(Rules::from_file("tollgate.yaml")?);
    /// let request = Request::new("POST", "/login").peer("203.0.113.7".parse()?);
    /// if !limiter.decide(&request).allowed {
    ///     println!("no");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "rules")]
    pub fn from_rules(rules: crate::Rules) -> crate::rules::RuleLimiter {
        Builder::default().build_rules(rules)
    }

    /// A limiter with a clock, a store or bounds of your choice.
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

    pub(crate) fn with(limits: SmallVec<[Limit; 2]>, clock: Clock) -> Limiter {
        let now = clock.now();
        let word = match &limits[..] {
            [limit] => Word::new(limit, now),
            _ => None,
        };
        let states = limits.iter().map(|limit| State::fresh(limit, now)).collect();
        Limiter(Arc::new(Shared { clock, word, books: Mutex::new(Books { limits, states }) }))
    }

    /// Takes one, or says when to come back.
    ///
    /// A limit on concurrency wants [`acquire`](Limiter::acquire) instead: a place that `check` takes
    /// is given up only when its lease runs out.
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

    /// Takes `cost` at once, or nothing.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("10/h".parse::<Limit>()?);
    /// assert!(limiter.check_n(8).is_ok());
    /// assert!(limiter.check_n(8).is_err()); // takes nothing
    /// assert!(limiter.check_n(2).is_ok());
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    #[inline]
    pub fn check_n(&self, cost: u64) -> Result<(), Denied> {
        if let Some(word) = &self.0.word
            && let Some(answer) = word.take(self.0.clock.now(), cost)
        {
            return answer;
        }
        self.run(Action::Take { max_wait: Span::ZERO }, cost, new_lease()).map(drop)
    }

    /// How things stand, with nothing spent. Of several limits, the one closest to its end.
    ///
    /// ```
    /// use tollgate::Limiter;
    /// let limiter = Limiter::builder().limits(["10/h".parse()?, "50/day".parse()?]).build();
    /// let standing = limiter.peek();
    /// assert_eq!((standing.limit, standing.remaining), (10, 10));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn peek(&self) -> Verdict {
        self.adjust(Action::Peek, 0, 0)
    }

    /// Takes `amount` until its true cost is known.
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
        Ok(Hold::new(OwnedCounters::Direct(self.clone()), amount, lease, DEFAULT_HOLD))
    }

    /// Gives `amount` back, never above full.
    pub fn refund(&self, amount: u64) -> Verdict {
        self.adjust(Action::Refund, amount, 0)
    }

    /// Waits for one. Requests go on in the order they began to wait. A future that is dropped
    /// gives its place in line back.
    ///
    /// ```
    /// # use tollgate::Limiter;
    /// async fn send(mail: &Limiter) {
    ///     mail.wait().await;
    ///     println!("sent");
    /// }
    /// ```
    pub async fn wait(&self) {
        // Every limit lets a single one pass at some time.
        let _ = self.wait_n(1).await;
    }

    /// Waits for `cost`; an error means that it can never pass.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("10/h".parse::<Limit>()?);
    /// assert!(ready(limiter.wait_n(10)).is_ok()); // at once
    /// assert!(ready(limiter.wait_n(11)).is_err()); // eleven never fit
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

    /// Waits for one if that takes no longer than `timeout`; otherwise refuses at once and
    /// charges nothing.
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

    /// [`wait`](Limiter::wait) for threads.
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

    /// [`wait_timeout`](Limiter::wait_timeout) for threads.
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

    /// Takes a place among those in flight, for limits on concurrency. Limits on rates beside
    /// it are charged one.
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

    /// Forgets what was spent.
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

    /// Replaces the limits while running; `carry` says what becomes of what is left. Limits are
    /// matched by position.
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
        let mut books = self.books();
        let now = self.0.clock.now();
        let states = limits.iter().enumerate().map(|(i, limit)| {
            let old = books.limits.get(i).zip(books.states.get(i));
            old.map_or_else(
                || State::fresh(limit, now),
                |(old, state)| {
                    let mut account = Account::new(old, state.clone(), 0);
                    account.carry(limit, now, carry);
                    account.state
                },
            )
        });
        let states = states.collect();
        *books = Books { limits, states };
    }

    /// The books, brought up to date: from now on they hold what the word held.
    fn books(&self) -> MutexGuard<'_, Books> {
        let mut books = self.0.books.lock();
        if let Some(state) = self.0.word.as_ref().and_then(Word::retire) {
            books.states[0] = State::Meter(state);
        }
        books
    }
}

impl Counters for Limiter {
    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn run(&self, action: Action, cost: u64, lease: u64) -> Result<Verdict, Denied> {
        let now = self.0.clock.now();
        if let Some(word) = &self.0.word
            && let Some(answer) = word.run(action, cost, now)
        {
            return answer;
        }
        let mut books = self.0.books.lock();
        let Books { limits, states } = &mut *books;
        let mut accounts: Accounts<'_> = limits
            .iter()
            .zip(states.drain(..))
            .map(|(limit, state)| Account { lease, ..Account::new(limit, state, cost) })
            .collect();
        let verdicts = account::run(action, &mut accounts, now);
        states.extend(accounts.into_iter().map(|account| account.state));
        answer(action, &verdicts, limits)
    }
}
