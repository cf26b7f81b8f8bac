//! What a holder of a place says: that it is done, or still at work.

use tollgate_core::{Span, Time};

use super::{Account, State};
use crate::limit::Engine;

impl Account<'_> {
    /// A holder is done after `rtt`; what it held is free again.
    pub(super) fn release(&mut self, now: Time, rtt: Span, dropped: bool) {
        let lease = self.lease;
        match (self.limit.engine(), &mut self.state) {
            (Engine::Concurrent(places), State::Leases(leases)) => {
                places.release(leases, now, lease);
            }
            (Engine::Adaptive(range), State::Adaptive(state)) => {
                let released = state.places(range).release(&mut state.leases, now, lease);
                if released {
                    state.learn(range, now, rtt, dropped);
                }
            }
            // What was spent on a rate stays spent.
            _ => {}
        }
    }

    /// A holder is still at work: its lease starts anew, if it has not run out.
    pub(super) fn renew(&mut self, now: Time) {
        let lease = self.lease;
        match (self.limit.engine(), &mut self.state) {
            (Engine::Concurrent(places), State::Leases(leases)) => {
                places.renew(leases, now, lease);
            }
            (Engine::Adaptive(range), State::Adaptive(state)) => {
                state.places(range).renew(&mut state.leases, now, lease);
            }
            _ => {}
        }
    }
}
