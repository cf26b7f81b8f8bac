//! Deciding requests that must leave a reserve. They are rare, so their code is not on the fast
//! path.

use tollgate_core::{Algorithm, Span, Time, Verdict};

use super::{Account, State, UNLIMITED, each_algorithm};
use crate::limit::LimitAlgorithm;

impl Account<'_> {
    /// Charges the state, and returns whether the charge is allowed and leaves the reserve.
    #[cold]
    #[inline(never)]
    pub(super) fn attempt_with_reserve(&mut self, now: Time, max_wait: Span) -> Verdict {
        let (cost, lease, reserve) = self.amounts();
        each_algorithm!(
            self,
            |algorithm, state| algorithm.attempt_leaving(state, now, cost, reserve, max_wait),
            |concurrency, leases| concurrency.acquire_leaving(leases, now, cost, reserve, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// Returns the verdict of a refusal, for a request that must leave a reserve.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse_with_reserve(&mut self, now: Time) -> Verdict {
        let (cost, lease, reserve) = self.amounts();
        each_algorithm!(
            self,
            |algorithm, state| algorithm.refuse_leaving(state, now, cost, reserve),
            |concurrency, leases| concurrency.acquire_leaving(leases, now, cost, reserve, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// Returns the cost, the lease, and the reserve at the current capacity.
    fn amounts(&self) -> (u64, u64, u64) {
        (self.cost, self.lease, self.reserve.amount(self.capacity()))
    }
}
