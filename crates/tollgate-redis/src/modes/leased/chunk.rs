//! What a node has charged at the store to spend here, and until when it may.

use tollgate::state::State;
use tollgate::{Engine, Limit, Span, Time};
use tollgate_core::MeterState;

use super::super::judge::Moment;

/// A chunk is spent within this time, or not at all. What is given back while other nodes hold
/// chunks is safe only because those are gone soon (see the proof in `leased.rs`).
pub(super) const LIFE: Span = Span::from_millis(250);

/// Units that were charged together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) size: u64,
    pub(super) left: u64,
    /// When it was charged, by the store's clock.
    pub(super) charged_at: Time,
    /// When it was asked for, by ours.
    pub(super) asked_at: Time,
    lapses: Lapses,
}

/// How the units of a chunk come back by themselves, and may then no longer be spent.
#[derive(Clone, Copy, Debug)]
enum Lapses {
    /// One after the other, the last of them at this arrival time.
    Queue { end: MeterState, rate: u64, period: u64 },
    /// All at once.
    Window { end: Time },
}

impl Chunk {
    /// The chunk of `size` whose charge led to this state; none if the limit has no chunks.
    pub(super) fn new(
        limit: &Limit,
        state: &State,
        size: u64,
        charged_at: Time,
        asked_at: Time,
    ) -> Option<Chunk> {
        let lapses = match (limit.engine(), state) {
            (Engine::Meter(meter), State::Meter(end)) => {
                let parts = meter.parts();
                Lapses::Queue { end: *end, rate: parts.rate, period: parts.period }
            }
            (Engine::FixedWindow(_), State::FixedWindow(state)) => {
                Lapses::Window { end: state.parts().0 }
            }
            _ => return None,
        };
        Some(Chunk { size, left: size, charged_at, asked_at, lapses })
    }

    /// How many of its units have not come back by themselves.
    pub(super) fn unlapsed(&self, now: Time) -> u64 {
        match self.lapses {
            Lapses::Window { end } => self.left * u64::from(now < end),
            Lapses::Queue { end, rate, period } => {
                let (ns, frac) = end.parts();
                let ahead = u128::from(ns.saturating_sub(now.as_nanos()));
                let frac = if ns < now.as_nanos() { 0 } else { u128::from(frac) };
                let units = ahead * u128::from(rate) + frac;
                let tokens = units / u128::from(period);
                self.left.min(u64::try_from(tokens).unwrap_or(u64::MAX))
            }
        }
    }

    pub(super) fn is_over(&self, here: Time) -> bool {
        here >= self.asked_at + LIFE
    }

    /// How much of it may be spent now.
    pub(super) fn spendable(&self, now: Moment) -> u64 {
        if self.is_over(now.here) { 0 } else { self.unlapsed(now.store) }
    }

    /// Spends so much of it, if it is there. What has lapsed meanwhile is gone for good.
    pub(super) fn spend(&mut self, cost: u64, now: Moment) -> bool {
        let Some(left) = self.spendable(now).checked_sub(cost) else { return false };
        self.left = left;
        true
    }

    /// Whether a window lasts longer than that; queues do not end.
    pub(super) fn lasts_until(&self, then: Time) -> bool {
        match self.lapses {
            Lapses::Window { end } => then < end,
            Lapses::Queue { .. } => true,
        }
    }
}
