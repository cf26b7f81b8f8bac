//! Permits of concurrency limits.

use tollgate_core::Time;

use crate::counters::{Counters, OwnedCounters};
use crate::store::Action;

/// A permit to be in flight under a concurrency limit, released when it is dropped.
///
/// A permit that is never dropped expires with its lease, which is 60 s unless the limit sets
/// another.
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
    /// Creates a permit that was just taken.
    pub(crate) fn new(counters: OwnedCounters, lease: u64) -> Permit {
        let since = counters.clock().now();
        Permit { counters, lease, since, failed: false }
    }

    /// Releases the permit and reports that the protected service has dropped the request.
    ///
    /// An adaptive limit is lowered.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter};
    /// let limiter = Limiter::new("adaptive 10..100 concurrent".parse::<Limit>()?);
    /// let permit = limiter.acquire()?;
    /// permit.failed(); // the service has responded with 503
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
