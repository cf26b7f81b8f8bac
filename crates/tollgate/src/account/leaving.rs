//! Requests that have to leave something for others. They are rare, and kept out of the way of the
//! rest.

use tollgate_core::{Algorithm, Span, Time, Verdict};

use super::{Account, State, UNLIMITED, each_algorithm};
use crate::limit::Engine;

impl Account<'_> {
    /// Charges the state if that may be kept, and leaves enough.
    #[cold]
    #[inline(never)]
    pub(super) fn attempt_leaving(&mut self, now: Time, max_wait: Span) -> Verdict {
        let (cost, lease, reserve) = self.asked();
        each_algorithm!(
            self,
            |algorithm, state| algorithm.attempt_leaving(state, now, cost, reserve, max_wait),
            |places, leases| places.acquire_leaving(leases, now, cost, reserve, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refuse_leaving(&mut self, now: Time) -> Verdict {
        let (cost, lease, reserve) = self.asked();
        each_algorithm!(
            self,
            |algorithm, state| algorithm.refuse_leaving(state, now, cost, reserve),
            |places, leases| places.acquire_leaving(leases, now, cost, reserve, lease),
            Verdict::allow(u64::MAX, UNLIMITED)
        )
    }

    /// The cost, the holder, and what must be left of the limit as it is now.
    fn asked(&self) -> (u64, u64, u64) {
        (self.cost, self.lease, self.reserve.amount(self.capacity()))
    }
}
