//! The internal state of a limiter, for operators.

use crate::actions::fair::FairTenants;
use crate::actions::queue::QueueLength;
use crate::decide::limiter::LimiterState;

/// The internal state of a limiter, read on demand. Returned by
/// [`RuleLimiter::status`](crate::RuleLimiter::status).
#[derive(Debug)]
pub struct LimiterStatus<'l, S>(pub(crate) &'l LimiterState<S>);

impl<S> LimiterStatus<'_, S> {
    /// Returns the queue length of each rule that has waiting requests.
    pub fn queues(&self) -> Vec<QueueLength> {
        self.0.queues.waiting()
    }

    /// Returns the number of recent tenants of each `fair` rule in this process.
    pub fn fair_tenants(&self) -> Vec<FairTenants> {
        self.0.fair.tenants(self.0.clock.now())
    }

    /// Returns how often the rules were replaced.
    pub fn replacements(&self) -> u64 {
        self.0.current.load().generation
    }
}
