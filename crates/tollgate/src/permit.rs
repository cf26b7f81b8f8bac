//! A place among those in flight, given up when it is dropped.

use tollgate_core::Time;

use crate::counters::{Counters, OwnedCounters};
use crate::store::Action;

/// Permission to be in flight. Dropping it makes room for the next.
///
/// A permit whose owner vanishes without dropping it runs out with its lease (60 s unless the
/// limit says otherwise).
///
/// ```
/// use tollgate::{Limit, Limiter};
///
/// let limiter = Limiter::new(Limit::concurrent(1)?);
/// let permit = limiter.acquire()?;
/// assert!(limiter.acquire().is_err());
/// drop(permit);
/// assert!(limiter.acquire().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a permit that is dropped at once protects nothing"]
pub struct Permit {
    counters: OwnedCounters,
    lease: u64,
    since: Time,
    failed: bool,
}

impl Permit {
    pub(crate) fn new(counters: OwnedCounters, lease: u64) -> Permit {
        let since = counters.clock().now();
        Permit { counters, lease, since, failed: false }
    }

    /// Ends it, saying that what it protects dropped the work: an adaptive limit comes down.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("adaptive 10..100 concurrent".parse::<Limit>()?);
    /// let permit = limiter.acquire()?;
    /// permit.failed(); // it answered 503
    /// assert!(limiter.acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn failed(mut self) {
        self.failed = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let rtt = self.counters.clock().now().since(self.since);
        let action = Action::Release { rtt, dropped: self.failed };
        self.counters.adjust(action, 0, self.lease);
    }
}
