//! Paying before the price is known: hold an estimate, settle for the truth.

use std::time::Duration;

use tollgate_core::Time;

use crate::counters::{Counters, OwnedCounters};
use crate::store::Action;

/// How long a hold stays open unless told otherwise.
pub(crate) const DEFAULT_HOLD: Duration = Duration::from_secs(600);

/// An amount taken in advance, of which what was not used goes back.
///
/// Dropping a hold settles nothing: its whole amount stays spent, as when its owner crashes.
/// The same is true of a hold that was left open for too long.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let tokens = Limiter::keyed(["200k tokens/min".parse::<Limit>()?]);
/// let hold = tokens.reserve("acme", 4_096)?; // what the answer may cost at most
/// hold.settle(812); // what it did cost
/// assert!(tokens.peek("acme").remaining >= 200_000 - 812);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a hold that is dropped keeps its whole charge: settle or cancel it"]
pub struct Hold {
    counters: OwnedCounters,
    amount: u64,
    lease: u64,
    since: Time,
    expires: Time,
}

/// What became of a hold.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, Settled, testing::ManualClock};
/// let clock = ManualClock::new();
/// let tokens = Limiter::builder().limit("10k/day".parse::<Limit>()?).clock(&clock).build();
/// let hold = tokens.reserve(1_000)?;
/// clock.advance(Duration::from_secs(3_600));
/// assert_eq!(hold.settle(10), Settled::Expired); // the 1,000 stay spent
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The difference was given back, or charged.
    Done,
    /// The hold had expired: nothing was given back.
    Expired,
}

impl Hold {
    pub(crate) fn new(counters: OwnedCounters, amount: u64, lease: u64, open: Duration) -> Hold {
        let since = counters.clock().now();
        Hold { counters, amount, lease, since, expires: since + open.into() }
    }

    /// What is held.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Leaves the hold open for `open` from now on instead.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, Settled};
    /// let tokens = Limiter::new("10k/day".parse::<Limit>()?);
    /// let hold = tokens.reserve(1_000)?.expire_in(Duration::from_secs(3_600)); // a long answer
    /// assert_eq!(hold.settle(10), Settled::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expire_in(mut self, open: Duration) -> Hold {
        self.expires = self.counters.clock().now() + open.into();
        self
    }

    /// Charges what was really spent: the rest goes back; more than was held becomes debt,
    /// which later requests wait for.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let tokens = Limiter::new("10k/day".parse::<Limit>()?);
    /// tokens.reserve(1_000)?.settle(400);
    /// assert_eq!(tokens.peek().remaining, 9_600);
    /// tokens.reserve(1_000)?.settle(1_600);
    /// assert_eq!(tokens.peek().remaining, 8_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(self, spent: u64) -> Settled {
        if spent > self.amount {
            self.counters.adjust(Action::Spend, spent - self.amount, self.lease);
        }
        if self.counters.clock().now() >= self.expires {
            return Settled::Expired;
        }
        // A place on a concurrency limit beside the rates is given up with the hold.
        let rtt = self.counters.clock().now().since(self.since);
        self.counters.adjust(Action::Release { rtt, dropped: false }, 0, self.lease);
        if spent < self.amount {
            self.counters.adjust(Action::Refund, self.amount - spent, self.lease);
        }
        Settled::Done
    }

    /// Gives everything back.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let tokens = Limiter::new("10k/day".parse::<Limit>()?);
    /// tokens.reserve(1_000)?.cancel();
    /// assert_eq!(tokens.peek().remaining, 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self) -> Settled {
        self.settle(0)
    }
}
