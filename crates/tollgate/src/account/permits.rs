//! Releasing and renewing the permits of concurrency limits.

use tollgate_core::{Span, Time};

use super::{Account, State};
use crate::limit::LimitAlgorithm;

impl Account<'_> {
    /// Releases a permit after `rtt`; an adaptive limit records how the request went.
    pub(super) fn release(&mut self, now: Time, rtt: Span, dropped: bool) {
        let lease = self.lease;
        match (self.limit.algorithm(), &mut self.state) {
            (LimitAlgorithm::Concurrent(concurrency), State::Leases(leases)) => {
                concurrency.release(leases, now, lease);
            }
            (LimitAlgorithm::Adaptive(range), State::Adaptive(state)) => {
                let released = state.concurrency(range).release(&mut state.leases, now, lease);
                if released {
                    state.record_sample(range, now, rtt, dropped);
                }
            }
            // What was spent on a rate stays spent.
            _ => {}
        }
    }

    /// Restarts the lease of a permit, unless it has expired.
    pub(super) fn renew(&mut self, now: Time) {
        let lease = self.lease;
        match (self.limit.algorithm(), &mut self.state) {
            (LimitAlgorithm::Concurrent(concurrency), State::Leases(leases)) => {
                concurrency.renew(leases, now, lease);
            }
            (LimitAlgorithm::Adaptive(range), State::Adaptive(state)) => {
                state.concurrency(range).renew(&mut state.leases, now, lease);
            }
            _ => {}
        }
    }
}
