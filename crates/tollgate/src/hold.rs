//! Holds: charging an estimate before the cost of a request is known.

use std::time::Duration;

use tollgate_core::Time;

use crate::counters::{Counters, OwnedCounters};
use crate::store::Action;

/// An amount charged in advance, to be settled for the actual cost.
///
/// The whole amount stays charged if the hold is dropped, as when its owner crashes, or if it
/// expires before it is settled.
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let tokens = Limiter::keyed(["200k tokens/min".parse::<Limit>()?]);
/// let hold = tokens.reserve("acme", 4_096)?; // the most that the reply may cost
/// hold.settle(812); // its actual cost
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

/// The outcome of settling a hold.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, Limiter, SettleOutcome, testing::ManualClock};
/// let clock = ManualClock::new();
/// let tokens = Limiter::builder().limit("10k/day".parse::<Limit>()?).clock(&clock).build();
/// let hold = tokens.reserve(1_000)?;
/// clock.advance(Duration::from_secs(3_600));
/// assert_eq!(hold.settle(10), SettleOutcome::Expired); // the 1,000 stay spent
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome {
    /// The difference to the actual cost was refunded or charged.
    Done,
    /// The hold had expired: nothing was refunded.
    Expired,
}

impl Hold {
    /// The time for which a hold stays open unless [`expire_in`](Hold::expire_in) is called.
    pub const DEFAULT_EXPIRY: Duration = Duration::from_secs(600);

    /// Creates a hold of `amount` that was just charged.
    pub(crate) fn new(counters: OwnedCounters, amount: u64, lease: u64, open: Duration) -> Hold {
        let since = counters.clock().now();
        Hold { counters, amount, lease, since, expires: since + open.into() }
    }

    /// Returns the amount that is held.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Sets the time, from now on, after which the hold expires.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, Limiter, SettleOutcome};
    /// let tokens = Limiter::new("10k/day".parse::<Limit>()?);
    /// let hold = tokens.reserve(1_000)?.expire_in(Duration::from_secs(3_600)); // a long reply
    /// assert_eq!(hold.settle(10), SettleOutcome::Done);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expire_in(mut self, open: Duration) -> Hold {
        self.expires = self.counters.clock().now() + open.into();
        self
    }

    /// Charges the actual cost instead of the amount.
    ///
    /// What was not spent is refunded. An overrun is charged as well; if it exceeds what is left,
    /// the key is in debt, and later requests wait until that is repaid.
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
    pub fn settle(self, spent: u64) -> SettleOutcome {
        if spent > self.amount {
            self.counters.adjust(Action::Spend, spent - self.amount, self.lease);
        }
        if self.counters.clock().now() >= self.expires {
            return SettleOutcome::Expired;
        }
        // A concurrency limit beside the rates has given a permit, which ends with the hold.
        let rtt = self.counters.clock().now().since(self.since);
        self.counters.adjust(Action::Release { rtt, dropped: false }, 0, self.lease);
        if spent < self.amount {
            self.counters.adjust(Action::Refund, self.amount - spent, self.lease);
        }
        SettleOutcome::Done
    }

    /// Refunds the whole amount.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let tokens = Limiter::new("10k/day".parse::<Limit>()?);
    /// tokens.reserve(1_000)?.cancel();
    /// assert_eq!(tokens.peek().remaining, 10_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self) -> SettleOutcome {
        self.settle(0)
    }
}
