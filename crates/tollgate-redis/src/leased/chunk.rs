//! A chunk: units that a node has charged at the store to spend locally, and until when it may.

use tollgate::state::State;
use tollgate::{Limit, LimitAlgorithm, Span, Time};
use tollgate_core::MeterState;

use crate::local::decision::ClockReading;

/// The lifetime of a chunk. Giving units back while other nodes have chunks is safe only because
/// those expire soon (see the proof in `leased/mod.rs`).
pub(super) const LIFE: Span = Span::from_millis(250);

/// Units that were charged together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) size: u64,
    pub(super) left: u64,
    /// The time of the charge, by the store's clock.
    pub(super) charged_at: Time,
    /// The time of the request, by the local clock.
    pub(super) requested_at: Time,
    expiry: ChunkExpiry,
}

/// The way in which charged units refill at the store. A unit that has refilled may no longer be
/// spent.
#[derive(Clone, Copy, Debug)]
enum ChunkExpiry {
    /// One after the other, the last of them at this arrival time.
    Queue { end: MeterState, rate: u64, period: u64 },
    /// All at once, when the window ends.
    Window { end: Time },
}

impl Chunk {
    /// Creates the chunk of `size` whose charge led to this state; `None` if the limit has no
    /// chunks.
    pub(super) fn new(
        limit: &Limit,
        state: &State,
        size: u64,
        charged_at: Time,
        requested_at: Time,
    ) -> Option<Chunk> {
        let expiry = match (limit.algorithm(), state) {
            (LimitAlgorithm::Meter(meter), State::Meter(end)) => {
                let parts = meter.parts();
                ChunkExpiry::Queue { end: *end, rate: parts.rate, period: parts.period }
            }
            (LimitAlgorithm::FixedWindow(_), State::FixedWindow(state)) => {
                ChunkExpiry::Window { end: state.parts().0 }
            }
            _ => return None,
        };
        Some(Chunk { size, left: size, charged_at, requested_at, expiry })
    }

    /// Returns the number of units that have not refilled at the store.
    pub(super) fn unexpired(&self, now: Time) -> u64 {
        match self.expiry {
            ChunkExpiry::Window { end } => self.left * u64::from(now < end),
            ChunkExpiry::Queue { end, rate, period } => {
                let (ns, frac) = end.parts();
                let ahead = u128::from(ns.saturating_sub(now.as_nanos()));
                let frac = if ns < now.as_nanos() { 0 } else { u128::from(frac) };
                let units = ahead * u128::from(rate) + frac;
                let tokens = units / u128::from(period);
                self.left.min(u64::try_from(tokens).unwrap_or(u64::MAX))
            }
        }
    }

    pub(super) fn is_over(&self, local: Time) -> bool {
        local >= self.requested_at + LIFE
    }

    /// Returns the number of units that may be spent now.
    pub(super) fn spendable(&self, now: ClockReading) -> u64 {
        if self.is_over(now.local) { 0 } else { self.unexpired(now.store) }
    }

    /// Spends `cost` units if there are enough. Units that have expired meanwhile are dropped.
    pub(super) fn spend(&mut self, cost: u64, now: ClockReading) -> bool {
        let Some(left) = self.spendable(now).checked_sub(cost) else { return false };
        self.left = left;
        true
    }

    /// Returns whether the window of the chunk ends after `then`; a token bucket has no end.
    pub(super) fn lasts_until(&self, then: Time) -> bool {
        match self.expiry {
            ChunkExpiry::Window { end } => then < end,
            ChunkExpiry::Queue { .. } => true,
        }
    }
}
