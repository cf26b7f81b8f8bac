//! Carrying the state of a key over to a changed limit.

use tollgate_core::{Algorithm, Carry, Time};

use super::{Account, State, each_algorithm, shifted};
use crate::adaptive::AdaptiveState;
use crate::limit::{Limit, LimitAlgorithm};

impl<'a> Account<'a> {
    /// Returns what is left to spend; negative if the key is in debt.
    fn remaining(&mut self, now: Time) -> i128 {
        let now = shifted(now, self.ahead);
        let used = each_algorithm!(
            self,
            |algorithm, state| algorithm.used(state, now),
            |concurrency, leases| concurrency.in_flight(leases, now),
            0
        );
        i128::from(self.capacity()) - i128::from(used)
    }

    /// Replaces the limit and converts the state to it.
    pub(crate) fn carry(&mut self, to: &'a Limit, now: Time, policy: Carry) {
        self.state = match (self.limit.algorithm(), to.algorithm(), &self.state) {
            // Permits stay in flight whatever happens to the limit.
            (_, LimitAlgorithm::Concurrent(_), State::Leases(leases)) => {
                State::Leases(leases.clone())
            }
            (_, LimitAlgorithm::Concurrent(_), State::Adaptive(state)) => {
                State::Leases(Box::new(state.leases.clone()))
            }
            (_, LimitAlgorithm::Adaptive(range), State::Leases(leases)) => {
                State::Adaptive(Box::new(AdaptiveState::new(range).with_leases((**leases).clone())))
            }
            (
                LimitAlgorithm::Adaptive(from),
                LimitAlgorithm::Adaptive(range),
                State::Adaptive(state),
            ) => State::Adaptive(Box::new(state.with_range(from, range))),
            (LimitAlgorithm::Meter(old), LimitAlgorithm::Meter(new), State::Meter(state)) => {
                State::Meter(new.carry(old, state, now, policy))
            }
            (LimitAlgorithm::WarmUp(old), LimitAlgorithm::WarmUp(new), State::WarmUp(state)) => {
                State::WarmUp(new.carry(old, state, now))
            }
            _ => {
                let remaining = policy.apply(self.remaining(now), self.capacity(), to.capacity());
                with_remaining(to, now, remaining)
            }
        };
        self.limit = to;
    }
}

/// Returns the state of a key that has `remaining` to spend under `limit`.
fn with_remaining(limit: &Limit, now: Time, remaining: i128) -> State {
    match limit.algorithm() {
        LimitAlgorithm::Meter(algorithm) => State::Meter(algorithm.with_remaining(now, remaining)),
        LimitAlgorithm::FixedWindow(algorithm) => {
            State::FixedWindow(algorithm.with_remaining(now, remaining))
        }
        LimitAlgorithm::SlidingWindow(algorithm) => {
            State::SlidingWindow(algorithm.with_remaining(now, remaining))
        }
        LimitAlgorithm::SlidingSlots(algorithm) => {
            State::SlidingSlots(Box::new(algorithm.with_remaining(now, remaining)))
        }
        LimitAlgorithm::SlidingLog(algorithm) => {
            State::SlidingLog(Box::new(algorithm.with_remaining(now, remaining)))
        }
        LimitAlgorithm::WarmUp(algorithm) => {
            State::WarmUp(algorithm.with_remaining(now, remaining))
        }
        LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_) | LimitAlgorithm::Unlimited => {
            State::fresh(limit, now)
        }
    }
}
