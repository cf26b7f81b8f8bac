//! A changed limit takes over what a key has spent.

use tollgate_core::{Algorithm, Carry, Time};

use super::{Account, State, each_algorithm};
use crate::adaptive::AdaptiveState;
use crate::limit::{Engine, Limit};

impl<'a> Account<'a> {
    /// What is left to spend, negative if something is owed.
    fn left(&mut self, now: Time) -> i128 {
        let used = each_algorithm!(
            self,
            |algorithm, state| algorithm.used(state, now),
            |places, leases| places.in_flight(leases, now),
            0
        );
        i128::from(self.capacity()) - i128::from(used)
    }

    /// Moves on to a changed limit.
    pub(crate) fn carry(&mut self, to: &'a Limit, now: Time, how: Carry) {
        self.state = match (self.limit.engine(), to.engine(), &self.state) {
            // Holders stay in flight whatever happens to the limit.
            (_, Engine::Concurrent(_), State::Leases(leases)) => State::Leases(leases.clone()),
            (_, Engine::Concurrent(_), State::Adaptive(state)) => {
                State::Leases(Box::new(state.leases.clone()))
            }
            (_, Engine::Adaptive(range), State::Leases(leases)) => {
                State::Adaptive(Box::new(AdaptiveState::new(range).with((**leases).clone())))
            }
            (Engine::Adaptive(from), Engine::Adaptive(range), State::Adaptive(state)) => {
                State::Adaptive(Box::new(state.moved(from, range)))
            }
            (Engine::Meter(old), Engine::Meter(new), State::Meter(state)) => {
                State::Meter(new.carry(old, state, now, how))
            }
            (Engine::WarmUp(old), Engine::WarmUp(new), State::WarmUp(state)) => {
                State::WarmUp(new.carry(old, state, now))
            }
            _ => {
                let left = how.apply(self.left(now), self.capacity(), to.capacity());
                endowed(to, now, left)
            }
        };
        self.limit = to;
    }
}

/// The state of a key that has `left` to spend under `limit`.
fn endowed(limit: &Limit, now: Time, left: i128) -> State {
    match limit.engine() {
        Engine::Meter(algorithm) => State::Meter(algorithm.endow(now, left)),
        Engine::FixedWindow(algorithm) => State::FixedWindow(algorithm.endow(now, left)),
        Engine::SlidingWindow(algorithm) => State::SlidingWindow(algorithm.endow(now, left)),
        Engine::SlidingSlots(algorithm) => {
            State::SlidingSlots(Box::new(algorithm.endow(now, left)))
        }
        Engine::SlidingLog(algorithm) => State::SlidingLog(Box::new(algorithm.endow(now, left))),
        Engine::WarmUp(algorithm) => State::WarmUp(algorithm.endow(now, left)),
        Engine::Concurrent(_) | Engine::Adaptive(_) | Engine::Unlimited => State::fresh(limit, now),
    }
}
